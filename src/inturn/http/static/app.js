// Starts the page: whom it speaks to, in which language, and where.

import { loadSession, who } from "./session.js";
import { NAMES, loadTexts, preferredLanguage, t } from "./i18n.js";
import * as live from "./events.js";
import * as router from "./router.js";
import { buildShell } from "./shell.js";
import { useRestart } from "./components/choices.js";
import { matched, to } from "./routes.js";
import { toast } from "./components/toast.js";
import { el } from "./dom.js";

const LANGUAGES = Object.keys(NAMES);
let shell = null;
let isSigningIn = false;

async function start() {
  try {
    await Promise.all([loadTexts(preferredLanguage(LANGUAGES)), loadSession(signedOut)]);
  } catch (wrong) {
    document.body.replaceChildren(el("p", { class: "no-script", role: "alert" }, wrong.message));
    setTimeout(() => location.reload(), 5_000);
    return;
  }
  redirect();
  useRestart(restart);
  shell = buildShell({ restart });
  document.body.replaceChildren(...shell.nodes);
  await router.begin(shell.main, shell.opened);
  if (who() !== null) live.start();
  live.watchConnection(check);
}

/** Nobody: to the key. A customer: to its own page, since the overview is of all. */
function redirect() {
  const here = matched(location.pathname)?.route.page;
  const asked = new URLSearchParams(location.search).get("to");
  if (who() === null && here !== "signin") {
    history.replaceState(null, "", to("signin", {}, location.pathname === "/" ? {} : { to: location.pathname + location.search }));
  } else if (who() !== null && here === "signin") {
    const isOurs = asked !== null && asked.startsWith("/") && matched(asked.split("?")[0]) !== null;
    history.replaceState(null, "", isOurs ? asked : "/");
  }
  if (who()?.customer && location.pathname === "/") history.replaceState(null, "", to("customer", { name: who().customer }));
}

/** After another language, or another person: everything is drawn anew, at the same place. */
async function restart() {
  await Promise.all([loadTexts(preferredLanguage(LANGUAGES)), loadSession(signedOut)]);
  redirect();
  shell.redraw();
  if (who() === null) live.stop();
  else live.start();
  isSigningIn = false;
  await router.again();
}

function signedOut() {
  if (isSigningIn || shell === null || who() === null) return;
  isSigningIn = true;
  restart().catch(() => {
    isSigningIn = false;
  });
}

let isTold = false;

/** A server that came back may be a newer one: then this page is old. And the session may be over by now. */
async function check() {
  const before = who();
  const session = await loadSession(signedOut).catch(() => null);
  if (session === null) return;
  if (before !== null && session.who === null) await restart();
  else if (session.build !== document.documentElement.dataset.build && !isTold) {
    isTold = true;
    toast(t("shell.new_version"), { action: { text: t("shell.reload"), call: () => location.reload() }, lasts: 0 });
  }
}

start();
