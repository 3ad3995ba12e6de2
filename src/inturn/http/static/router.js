// Opens pages by their address. Filters live in the query, so that every view has an address and Back works.

import { el, fill } from "./dom.js";
import { listen } from "./events.js";
import { isFor, matched, to } from "./routes.js";
import { who } from "./session.js";
import { t } from "./i18n.js";
import { failed, loading, notFound } from "./components/placeholders.js";

let outlet = null;
let onOpen = () => {};
let open = null;
let ticket = 0;
const styles = new Map();

/** `main` is where pages are shown; `opened(page, title, view)` hears of each. */
export function begin(main, opened) {
  outlet = main;
  onOpen = opened;
  window.addEventListener("popstate", () => show({ isBack: true }));
  document.addEventListener("click", follow);
  return show({ isFirst: true });
}

export function go(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  return show();
}

/** Show the page of this address once more, from the beginning: after another language or another person. */
export function again() {
  close();
  return show({ isAgain: true });
}

function follow(event) {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target.closest?.("a[href]");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (matched(link.pathname) === null) return;
  event.preventDefault();
  if (link.href !== location.href) go(link.href);
}

async function show({ isFirst = false, isBack = false, isAgain = false } = {}) {
  const found = matched(location.pathname);
  if (open !== null && found !== null && open.key === keyOf(found)) {
    open.view.query = new URLSearchParams(location.search);
    open.page?.update?.(open.view.query);
    return;
  }
  close();
  ticket += 1;
  const mine = ticket;
  if (!isBack && !isFirst && !isAgain) window.scrollTo(0, 0);
  if (found === null || !isFor(found.route, who())) {
    onOpen(null, t("shell.not_found"), null);
    fill(outlet, notFound());
    return;
  }
  const { route, params } = found;
  const view = new View(route, params);
  open = { key: keyOf(found), view, page: null };
  onOpen(route.page, t(`${route.page}.title`), view, { isFirst, isAgain });
  fill(outlet, loading());
  try {
    const [module] = await Promise.all([import(`./pages/${route.page}.js`), styled(route.page)]);
    if (mine !== ticket) return;
    const page = (await module.mount(view)) ?? {};
    if (mine !== ticket) {
      page.unmount?.();
      return;
    }
    open.page = page;
    fill(outlet, view.root);
    page.shown?.();
  } catch (wrong) {
    if (mine !== ticket || wrong.name === "AbortError") return;
    if (wrong.code === undefined) console.error(wrong); // a mistake of ours
    fill(outlet, failed(wrong, again));
  }
}

function close() {
  if (open === null) return;
  open.page?.unmount?.();
  open.view.end();
  open = null;
}

function keyOf({ route, params }) {
  return `${route.page} ${JSON.stringify(params)}`;
}

/** A page's own style, loaded before the page is shown and then kept. */
function styled(page) {
  if (!styles.has(page)) {
    styles.set(
      page,
      new Promise((resolve) => {
        const href = new URL(`pages/${page}.css`, import.meta.url).href;
        const link = el("link", { rel: "stylesheet", href, on: { load: resolve, error: resolve } });
        document.head.append(link);
      }),
    );
  }
  return styles.get(page);
}

/** What a page gets to work with; everything that it begins here ends when the page is left. */
class View {
  #ends = new AbortController();

  constructor(route, params) {
    this.page = route.page;
    this.params = params;
    this.query = new URLSearchParams(location.search);
    this.root = el("div", { class: `page page-${route.page}` });
    this.setTitle = () => {};
    this.setActions = () => {};
  }

  /** For requests: aborted when the page is left. */
  get signal() {
    return this.#ends.signal;
  }

  /** Change filters in the address; null takes one away. The page's `update` is called unless `quietly`. */
  setQuery(changes, { replace = true, quietly = false } = {}) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      query.delete(name);
      for (const each of [value].flat()) if (each !== null && each !== undefined && each !== "") query.append(name, each);
    }
    const address = query.size > 0 ? `${location.pathname}?${query}` : location.pathname;
    if (quietly) {
      history[replace ? "replaceState" : "pushState"](null, "", address);
      this.query = query;
    } else go(address, { replace });
  }

  /** Events as they happen: see events.js. */
  listen(kinds, call, wait) {
    this.onEnd(listen(kinds, call, wait));
  }

  /** Call every so many milliseconds while somebody looks. */
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
    this.#ends.abort();
  }

  go(page, params, query) {
    return go(to(page, params, query));
  }
}
