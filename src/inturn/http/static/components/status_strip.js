// What needs attention, above every page: a line each, with a link or a button to where it is mended.

import { ApiError, get, ignoreRequestError, send } from "../api.js";
import { el, fill, setText } from "../dom.js";
import { listen } from "../events.js";
import { ago, number } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { currentUser, mayOperate } from "../session.js";
import { icon } from "./icons.js";
import { requireUnchanged, toast, toastWithUndo } from "./toast.js";

const INTERVAL_MS = 10_000;
const EVENTS = ["queue_paused", "queue_resumed", "customer_changed", "worker_paused", "worker_resumed"];
const MAX_NAMES = 3;
const SEVERE = new Set(["queue_paused", "no_workers", "queues_unserved", "failing"]);

/** Returns {node, start(), redraw()}. It asks every ten seconds while the tab is shown, and after a pause or resume. */
export function statusStrip() {
  const list = el("ul", { class: "notices" });
  const node = el("section", { class: "status-strip", hidden: true }, list);
  /** @type {Api.Notice[]} */
  let notices = [];
  let timer = 0;

  function draw() {
    node.hidden = notices.length === 0 || currentUser() === null;
    node.setAttribute("aria-label", t("shell.notices"));
    const keys = JSON.stringify(notices);
    if (list.dataset.keys === keys && list.dataset.language === document.documentElement.lang) {
      notices.forEach((notice, index) => setText(/** @type {HTMLElement} */ (list.children[index].querySelector(".notice-text")), describe(notice)));
      return; // focus stays where it is
    }
    Object.assign(list.dataset, { keys, language: document.documentElement.lang });
    fill(list, notices.map((notice) => makeNotice(notice, load)));
  }

  async function load() {
    clearTimeout(timer);
    if (currentUser() !== null && !document.hidden) {
      try {
        ({ notices } = await get("/v1/status"));
        draw();
      } catch (error) {
        ignoreRequestError(error); // the status indicator shows an offline server
      }
    }
    clearTimeout(timer);
    timer = setTimeout(load, INTERVAL_MS);
  }

  listen(EVENTS, load, 300);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) void load();
  });
  return { node, load, redraw: draw };
}

/**
 * @param {Api.Notice} notice
 * @param {() => Promise<unknown>} reload
 */
function makeNotice(notice, reload) {
  const kind = SEVERE.has(notice.kind) ? "bad" : "warn";
  return el("li", { class: `notice notice-${kind}`, data: { kind: notice.kind } }, icon(notice.kind.endsWith("paused") ? "pause" : "warning"), el("p", { class: "notice-text" }, describe(notice)), remedy(notice, reload));
}

/** @param {Api.Notice} notice */
function describe(notice) {
  const { kind, operator, why, at, names, n, of } = notice;
  const shown = names.slice(0, MAX_NAMES).join(", ") + (names.length > MAX_NAMES ? ", …" : "");
  if (currentUser()?.customer) return t(`shell.notice_own_${kind}`, { names: shown });
  if (kind === "queue_paused") return pauseText(t("shell.notice_queue_paused"), operator, why, at);
  if (kind === "queues_paused") return pauseText(t("shell.notice_queues_paused", { names: shown }), operator, why, at);
  if (kind === "customers_paused") return pauseText(t("shell.notice_customers_paused", { names: shown }), operator, why, at);
  if (kind === "failing") return t("shell.notice_failing", { n, of: number(of) });
  if (kind === "overdue") return t("shell.notice_overdue", { levels: notice.levels.join(", ") });
  return t(`shell.notice_${kind}`, { n, names: shown });
}

/**
 * The fact, then who, when and why as far as that is known.
 * @param {string} fact
 * @param {string | null} operator
 * @param {string} why
 * @param {number | null} at
 */
function pauseText(fact, operator, why, at) {
  const by = operator && (at === null ? t("shell.notice_by", { operator }) : t("shell.notice_by_at", { operator, ago: ago(at) }));
  return [fact, by, why && t("shell.notice_because", { why })].filter(Boolean).join(" ");
}

/**
 * @param {Api.Notice} notice
 * @param {() => Promise<unknown>} reload
 */
function remedy(notice, reload) {
  if (currentUser()?.customer) return null;
  const { kind, names, why } = notice;
  const isOne = kind === "customers_paused" && names.length === 1;
  if (mayOperate() && (kind === "queue_paused" || isOne)) {
    const resume = async (/** @type {Event} */ event) => {
      const button = /** @type {HTMLButtonElement} */ (event.currentTarget);
      button.disabled = true;
      try {
        toastWithUndo(t("shell.resumed"), await (isOne ? resumeCustomer(names[0], why, reload) : resumeQueue(why, reload)));
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        toast(error.message, { kind: "error" });
      } finally {
        button.disabled = false;
        await reload();
      }
    };
    return el("button", { class: "button button-small", type: "button", on: { click: resume } }, t("shell.resume"));
  }
  return el("a", { class: "notice-link", href: hrefOf(notice) }, t(`shell.notice_link_${kind}`));
}

/**
 * Resume a customer; return the function that pauses it again, for the same reason.
 * @param {string} name
 * @param {string} why
 * @param {() => Promise<unknown>} reload
 */
async function resumeCustomer(name, why, reload) {
  const path = `/v1/customers/${encodeURIComponent(name)}`;
  await send("PATCH", path, { body: { paused: false } });
  return async () => {
    await send("PATCH", path, { body: { paused: true, expected: { paused: false } }, query: { why } });
    await reload();
  };
}

/**
 * Resume the queue; return the function that pauses it again, for the same reason.
 * @param {string} why
 * @param {() => Promise<unknown>} reload
 */
async function resumeQueue(why, reload) {
  const left = await send("POST", "/v1/queue/resume");
  return async () => {
    requireUnchanged(await get("/v1/queue"), left);
    await send("POST", "/v1/queue/pause", { query: { why } });
    await reload();
  };
}

/** @param {Api.Notice} notice */
function hrefOf({ kind, names, levels }) {
  if (kind === "failing") return pageUrl("failures", {}, { range: "hour" });
  if (kind === "overdue") return pageUrl("documents", {}, { state: "waiting", level: levels, sort: "oldest" });
  if (kind === "customers_paused") return names.length === 1 ? pageUrl("customer", { name: names[0] }) : pageUrl("customers", {}, { paused: "true" });
  if (kind === "queues_paused") return pageUrl("queues");
  return kind === "queue_paused" ? pageUrl("settings") : pageUrl("workers");
}
