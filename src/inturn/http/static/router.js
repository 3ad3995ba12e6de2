// Open pages by their address. Filters are in the query, so that every view has an address and Back works.

import { ApiError, isAbort } from "./api.js";
import { el, fill } from "./dom.js";
import { LIVE, listen, onStatusChange } from "./events.js";
import { t } from "./i18n.js";
import { isVisibleTo, matchRoute, movedUrl, pageUrl } from "./routes.js";
import { currentUser } from "./session.js";
import { errorState, loadingState, notFoundState } from "./components/placeholders.js";
import { toast } from "./components/toast.js";

/** @import { TrailLink } from "./components/breadcrumbs.js" */
/** @import { Child } from "./dom.js" */
/** @import { QueueEvent } from "./events.js" */

const OFFLINE_RETRY_MS = 5_000;

/**
 * What a page's `mount` returns; see docs/design/page.md.
 * `mayLeave` is asked before another page is opened; false keeps this one.
 * @typedef {{ update?: (query: URLSearchParams) => unknown, shown?: () => unknown, unmount?: () => unknown, mayLeave?: () => Promise<boolean> }} Page
 *
 * @typedef {(page: string | null, title: string, view: View | null, options: { isFirst: boolean, isAgain: boolean }) => void} OnOpen
 */

/** @type {HTMLElement} */
let outlet;
/** @type {OnOpen} */
let onOpen = () => {};
/** @type {{ key: string, address: string, view: View, page: Page | null } | null} */
let active = null;
let navigationId = 0;

/**
 * `main` is the parent of pages; opened(page, title, view) is called for each.
 * @param {HTMLElement} main
 * @param {OnOpen} opened
 */
export function startRouter(main, opened) {
  outlet = main;
  onOpen = opened;
  window.addEventListener("popstate", () => void goBack());
  document.addEventListener("click", onLinkClick);
  return openCurrentUrl({ isFirst: true });
}

/** @param {string} address */
export async function navigate(address, { replace = false } = {}) {
  if (!(await mayLeaveFor(new URL(address, location.href).pathname))) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  await openCurrentUrl();
}

/** Open the address that the browser's Back or Forward led to, unless the page is to stay. */
async function goBack() {
  const stayed = active?.address ?? location.href;
  if (await mayLeaveFor(location.pathname)) await openCurrentUrl({ isBack: true });
  else history.pushState(null, "", stayed);
}

/**
 * Whether the page may be left for another path. Other filters of the same page do not leave it.
 * @param {string} path
 */
async function mayLeaveFor(path) {
  if (!active?.page?.mayLeave) return true;
  const match = matchRoute(path);
  return (match !== null && pageKey(match) === active.key) || active.page.mayLeave();
}

/** Mount the page of the current address again, after a change of language or of user. */
export function reloadPage() {
  closePage();
  return openCurrentUrl({ isAgain: true });
}

/** @param {MouseEvent} event */
function onLinkClick(event) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = /** @type {Element} */ (event.target).closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (matchRoute(link.pathname) === null) return;
  event.preventDefault();
  if (link.href !== location.href) void navigate(link.href);
}

async function openCurrentUrl({ isFirst = false, isBack = false, isAgain = false } = {}) {
  const match = matchRoute(location.pathname);
  const moved = match === null ? null : movedUrl(match, location.search);
  if (moved !== null) {
    history.replaceState(null, "", moved);
    return openCurrentUrl({ isFirst, isBack, isAgain });
  }
  if (active !== null && match !== null && active.key === pageKey(match)) {
    active.address = location.href;
    active.view.query = new URLSearchParams(location.search);
    await updatePage(active.page, active.view.query);
    return;
  }
  closePage();
  navigationId += 1;
  const ownId = navigationId;
  if (!isBack && !isFirst && !isAgain) window.scrollTo(0, 0);
  if (match === null || !isVisibleTo(match.route, currentUser())) {
    onOpen(null, t("shell.not_found"), null, { isFirst, isAgain });
    fill(outlet, notFoundState());
    return;
  }
  const { route, params } = match;
  const view = new View(route, params);
  active = { key: pageKey(match), address: location.href, view, page: null };
  onOpen(route.page, t(`${route.page}.title`), view, { isFirst, isAgain });
  fill(outlet, loadingState());
  try {
    const module = await import(`./pages/${route.page}.js`); // the shell has loaded all modules and styles
    if (ownId !== navigationId) return;
    const page = (await module.mount(view)) ?? {};
    if (ownId !== navigationId) {
      page.unmount?.();
      return;
    }
    active.page = page;
    fill(outlet, view.root);
    page.shown?.();
  } catch (error) {
    if (ownId !== navigationId || isAbort(error)) return;
    if (!(error instanceof ApiError)) console.error(error); // a bug of the page, not of a request
    fill(outlet, errorState(error, reloadPage));
    if (error instanceof ApiError && error.code === "offline") reloadWhenBack(view, ownId);
  }
}

/**
 * Show other filters. If a request fails, the page stays as it is.
 * @param {Page | null} page
 * @param {URLSearchParams} query
 */
async function updatePage(page, query) {
  try {
    await page?.update?.(query);
  } catch (error) {
    if (isAbort(error)) return;
    if (!(error instanceof ApiError)) throw error;
    toast(error.message, { kind: "error" });
  }
}

/**
 * Open the page again once the server answers, unless another one was opened meanwhile.
 * @param {View} view
 * @param {number} ownId
 */
function reloadWhenBack(view, ownId) {
  let wasAway = false;
  view.onEnd(
    onStatusChange((status) => {
      if (status === LIVE && wasAway && ownId === navigationId) queueMicrotask(() => void reloadPage());
      wasAway = status !== LIVE;
    }),
  );
  view.every(OFFLINE_RETRY_MS, () => {
    if (!wasAway && ownId === navigationId) void reloadPage(); // the stream still lives, or is not open yet
  });
}

function closePage() {
  if (active === null) return;
  active.page?.unmount?.();
  active.view.end();
  active = null;
}

/** @param {import("./routes.js").Match} match */
function pageKey({ route, params }) {
  return `${route.page} ${JSON.stringify(params)}`;
}

/** The router's interface for a page. Timers, listeners and requests of a view end when the page is left. */
export class View {
  #abortController = new AbortController();
  /** Set the heading. */
  setTitle = (/** @type {string} */ _title) => {};
  /** Set the buttons beside the heading. */
  setActions = (/** @type {Child[]} */ ..._buttons) => {};
  /** Set the links before the heading. */
  setTrail = (/** @type {TrailLink[]} */ _links) => {};

  /**
   * @param {import("./routes.js").Route} route
   * @param {Record<string, string>} params
   */
  constructor(route, params) {
    this.page = route.page;
    this.params = params;
    this.query = new URLSearchParams(location.search);
    this.root = el("div", { class: `page page-${route.page}` });
  }

  /** The signal for requests, aborted when the page is left. */
  get signal() {
    return this.#abortController.signal;
  }

  /**
   * Change filters in the address; null removes one. The page's `update` is called unless `quietly`.
   * @param {Record<string, unknown>} changes
   */
  setQuery(changes, { replace = true, quietly = false } = {}) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      query.delete(name);
      for (const item of [value].flat()) if (item !== null && item !== undefined && item !== "") query.append(name, String(item));
    }
    const address = query.size > 0 ? `${location.pathname}?${query}` : location.pathname;
    if (quietly) {
      history[replace ? "replaceState" : "pushState"](null, "", address);
      this.query = query;
    } else void navigate(address, { replace });
  }

  /**
   * Subscribe to events: see events.js.
   * @param {"*" | readonly string[]} kinds
   * @param {(events: QueueEvent[]) => unknown} call
   * @param {number} [wait] milliseconds
   */
  listen(kinds, call, wait) {
    this.onEnd(listen(kinds, call, wait));
  }

  /**
   * Call every `ms` milliseconds while the tab is visible.
   * @param {number} ms
   * @param {() => unknown} call
   */
  every(ms, call) {
    const timer = setInterval(() => {
      if (!document.hidden) call();
    }, ms);
    this.onEnd(() => clearInterval(timer));
  }

  /** @param {() => void} call */
  onEnd(call) {
    this.signal.addEventListener("abort", call);
  }

  end() {
    this.#abortController.abort();
  }

  /**
   * @param {string} page
   * @param {Record<string, string>} [params]
   * @param {Record<string, unknown>} [query]
   */
  go(page, params, query) {
    return navigate(pageUrl(page, params, query));
  }
}
