// Start the page: load texts and session, build the shell, open the first page.

import { el } from "./dom.js";
import * as events from "./events.js";
import { LANGUAGE_NAMES, loadTexts, preferredLanguage, t } from "./i18n.js";
import * as router from "./router.js";
import { matchRoute, pageUrl } from "./routes.js";
import { currentUser, loadSession } from "./session.js";
import { buildShell } from "./shell.js";
import { setRestartHandler } from "./components/choices.js";
import { toast } from "./components/toast.js";
import { startTooltips } from "./components/tooltip.js";

const LANGUAGES = Object.keys(LANGUAGE_NAMES);
/** @type {ReturnType<typeof buildShell> | null} */
let shell = null;
let isSigningIn = false;

async function start() {
  try {
    await Promise.all([loadTexts(preferredLanguage(LANGUAGES)), loadSession(handleSignedOut)]);
  } catch (error) {
    document.body.replaceChildren(el("p", { class: "no-script", role: "alert" }, String(/** @type {Error} */ (error).message)));
    setTimeout(() => location.reload(), 5_000);
    return;
  }
  redirect();
  setRestartHandler(restart);
  shell = buildShell({ restart });
  document.body.replaceChildren(...shell.nodes);
  startTooltips();
  await router.startRouter(shell.main, shell.opened);
  void shell.loadNotices(); // they read the whole queue: the first page comes before them
  if (currentUser() !== null) events.start();
  events.onConnectionChange(checkSessionAndBuild);
}

/** Replace addresses the user cannot see: sign in first; a customer has no overview. */
function redirect() {
  const here = matchRoute(location.pathname)?.route.page;
  const target = new URLSearchParams(location.search).get("to");
  if (currentUser() === null && here !== "signin") {
    history.replaceState(null, "", pageUrl("signin", {}, location.pathname === "/" ? {} : { to: location.pathname + location.search }));
  } else if (currentUser() !== null && here === "signin") {
    const isOurs = target !== null && target.startsWith("/") && matchRoute(target.split("?")[0]) !== null;
    history.replaceState(null, "", isOurs ? target : "/");
  }
  const customer = currentUser()?.customer;
  if (customer && location.pathname === "/") history.replaceState(null, "", pageUrl("customer", { name: customer }));
}

/** Redraw everything at the same address, after a change of language or of user. */
async function restart() {
  await Promise.all([loadTexts(preferredLanguage(LANGUAGES)), loadSession(handleSignedOut)]);
  redirect();
  shell?.redraw();
  if (currentUser() === null) events.stop();
  else events.start();
  isSigningIn = false;
  await router.reloadPage();
}

function handleSignedOut() {
  if (isSigningIn || shell === null || currentUser() === null) return;
  isSigningIn = true;
  restart().catch(() => {
    isSigningIn = false;
  });
}

let isReloadOffered = false;

/** Check after a reconnect: the session may have ended, and the server may be a newer build. */
async function checkSessionAndBuild() {
  const before = currentUser();
  const session = await loadSession(handleSignedOut).catch(() => null);
  if (session === null) return;
  if (before !== null && session.who === null) await restart();
  else if (session.build !== document.documentElement.dataset.build && !isReloadOffered) {
    isReloadOffered = true;
    toast(t("shell.new_version"), { action: { text: t("shell.reload"), call: () => location.reload() }, durationMs: 0 });
  }
}

void start();
