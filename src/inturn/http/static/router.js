// Open pages by their address. Filters are in the query, so that every view has an address and Back works.

import { el, fill } from "./dom.js";
import { listen } from "./events.js";
import { t } from "./i18n.js";
import { isVisibleTo, matchRoute, pageUrl } from "./routes.js";
import { currentUser } from "./session.js";
import { errorState, loadingState, notFoundState } from "./components/placeholders.js";

let outlet = null;
let onOpen = () => {};
let active = null;
let navigationId = 0;
const stylesheets = new Map();

/** `main` is the parent of pages; opened(page, title, view) is called for each. */
export function startRouter(main, opened) {
  outlet = main;
  onOpen = opened;
  window.addEventListener("popstate", () => openCurrentUrl({ isBack: true }));
  document.addEventListener("click", onLinkClick);
  return openCurrentUrl({ isFirst: true });
}

export function navigate(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  return openCurrentUrl();
}

/** Mount the page of the current address again, after a change of language or of user. */
export function reloadPage() {
  closePage();
  return openCurrentUrl({ isAgain: true });
}

function onLinkClick(event) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[href]");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (matchRoute(link.pathname) === null) return;
  event.preventDefault();
  if (link.href !== location.href) navigate(link.href);
}

async function openCurrentUrl({ isFirst = false, isBack = false, isAgain = false } = {}) {
  const match = matchRoute(location.pathname);
  if (active !== null && match !== null && active.key === pageKey(match)) {
    active.view.query = new URLSearchParams(location.search);
    active.page?.update?.(active.view.query);
    return;
  }
  closePage();
  navigationId += 1;
  const ownId = navigationId;
  if (!isBack && !isFirst && !isAgain) window.scrollTo(0, 0);
  if (match === null || !isVisibleTo(match.route, currentUser())) {
    onOpen(null, t("shell.not_found"), null);
    fill(outlet, notFoundState());
    return;
  }
  const { route, params } = match;
  const view = new View(route, params);
  active = { key: pageKey(match), view, page: null };
  onOpen(route.page, t(`${route.page}.title`), view, { isFirst, isAgain });
  fill(outlet, loadingState());
  try {
    const [module] = await Promise.all([import(`./pages/${route.page}.js`), loadStylesheet(route.page)]);
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
    if (ownId !== navigationId || error.name === "AbortError") return;
    if (error.code === undefined) console.error(error); // a bug of the page, not of a request
    fill(outlet, errorState(error, reloadPage));
  }
}

function closePage() {
  if (active === null) return;
  active.page?.unmount?.();
  active.view.end();
  active = null;
}

function pageKey({ route, params }) {
  return `${route.page} ${JSON.stringify(params)}`;
}

/** Load a page's stylesheet before its first show. It stays loaded. */
function loadStylesheet(page) {
  if (!stylesheets.has(page)) {
    stylesheets.set(
      page,
      new Promise((resolve) => {
        const href = new URL(`pages/${page}.css`, import.meta.url).href;
        const link = el("link", { rel: "stylesheet", href, on: { load: resolve, error: resolve } });
        document.head.append(link);
      }),
    );
  }
  return stylesheets.get(page);
}

/** The router's interface for a page. Timers, listeners and requests of a view end when the page is left. */
class View {
  #abortController = new AbortController();

  constructor(route, params) {
    this.page = route.page;
    this.params = params;
    this.query = new URLSearchParams(location.search);
    this.root = el("div", { class: `page page-${route.page}` });
    this.setTitle = () => {};
    this.setActions = () => {};
  }

  /** The signal for requests, aborted when the page is left. */
  get signal() {
    return this.#abortController.signal;
  }

  /** Change filters in the address; null removes one. The page's `update` is called unless `quietly`. */
  setQuery(changes, { replace = true, quietly = false } = {}) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      query.delete(name);
      for (const item of [value].flat()) if (item !== null && item !== undefined && item !== "") query.append(name, item);
    }
    const address = query.size > 0 ? `${location.pathname}?${query}` : location.pathname;
    if (quietly) {
      history[replace ? "replaceState" : "pushState"](null, "", address);
      this.query = query;
    } else navigate(address, { replace });
  }

  /** Subscribe to events: see events.js. */
  listen(kinds, call, wait) {
    this.onEnd(listen(kinds, call, wait));
  }

  /** Call every `ms` milliseconds while the tab is visible. */
  every(ms, call) {
    const timer = setInterval(() => {
      if (!document.hidden) call();
    }, ms);
    this.onEnd(() => clearInterval(timer));
  }

  onEnd(call) {
    this.signal.addEventListener("abort", call);
  }

  end() {
    this.#abortController.abort();
  }

  go(page, params, query) {
    return navigate(pageUrl(page, params, query));
  }
}
