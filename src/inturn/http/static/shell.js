// The frame of every page: navigation, top bar, breadcrumbs, title, status indicator, language and theme.

import { ApiError } from "./api.js";
import { el, fill, setProp, setText } from "./dom.js";
import { onStatusChange } from "./events.js";
import { t } from "./i18n.js";
import { NAVIGATION, isVisibleTo, routeOf } from "./routes.js";
import { currentSession, currentUser, signOut } from "./session.js";
import { breadcrumbs } from "./components/breadcrumbs.js";
import { appearanceChoices } from "./components/choices.js";
import { icon } from "./components/icons.js";
import { menuButton } from "./components/menu.js";
import { searchBox } from "./components/search_box.js";
import { statusStrip } from "./components/status_strip.js";
import { toast } from "./components/toast.js";

/** @import { View } from "./router.js" */

/** @type {Record<string, string>} */
const PARENT_PAGES = { customer: "customers", document: "documents", task: "tasks" };

/**
 * restart() redraws everything. Returns {nodes, main, opened, redraw}.
 * @param {{ restart: () => Promise<void> }} options
 */
export function buildShell({ restart }) {
  const side = el("aside", { class: "side", id: "side" });
  const title = el("h1", { class: "title", tabindex: "-1" });
  const mark = el("p", { class: "live", role: "status" });
  const actions = el("div", { class: "title-actions" });
  const main = el("div", { class: "outlet" });
  const skip = el("a", { class: "skip", href: "#main" });
  const menu = el("button", { class: "button-icon menu", type: "button", "aria-controls": "side", on: { click: () => openMenu(true) } }, icon("menu"));
  const preferences = menuButton({ iconName: "preferences", groups: appearanceChoices });
  const search = searchBox();
  const top = el("header", { class: "top" }, menu, brand(), search.node, el("div", { class: "top-end" }, preferences.node));
  const shade = el("div", { class: "shade", on: { click: () => openMenu(false) } });
  const trail = breadcrumbs();
  const strip = statusStrip();
  const content = el("main", { id: "main", class: "main" }, strip.node, trail.node, el("header", { class: "title-row" }, title, mark, actions), main);
  /** @type {string | null} */
  let page = null;
  /** @type {View | null} */
  let shownView = null;

  skip.addEventListener("click", (event) => {
    event.preventDefault();
    title.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.documentElement.classList.contains("menu-open")) openMenu(false);
  });
  matchMedia("(max-width: 859px)").addEventListener("change", () => openMenu(false, { quietly: true }));

  /** @param {boolean} isOpen */
  function openMenu(isOpen, { quietly = false } = {}) {
    document.documentElement.classList.toggle("menu-open", isOpen);
    const isNarrow = matchMedia("(max-width: 859px)").matches;
    side.inert = isNarrow && !isOpen;
    content.inert = isNarrow && isOpen;
    setProp(menu, "aria-expanded", String(isOpen));
    if (quietly || !isNarrow) return;
    if (isOpen) /** @type {HTMLElement | null} */ (side.querySelector("a, button"))?.focus();
    else menu.focus();
  }

  function redraw() {
    setText(skip, t("shell.skip"));
    setProp(menu, "aria-label", t("shell.menu"));
    preferences.setLabel(t("shell.preferences"));
    search.redraw();
    fill(side, el("div", { class: "side-head" }, brand(), closeButton()), navigation(), foot());
    openMenu(false, { quietly: true });
  }

  function closeButton() {
    return el("button", { class: "button-icon side-close", type: "button", "aria-label": t("shell.close"), on: { click: () => openMenu(false) } }, icon("close"));
  }

  function navigation() {
    const groups = currentUser() === null ? [] : NAVIGATION.map((group) => group.filter((name) => isVisibleTo(routeOf(name), currentUser()))).filter((group) => group.length > 0);
    const customer = currentUser()?.customer;
    const own = customer ? [link("customer", `/customers/${encodeURIComponent(customer)}`, "customers")] : [];
    const lists = groups.map((group, index) => el("ul", {}, index === 0 ? own : null, group.map((name) => link(name, routeOf(name).path, name))));
    return el("nav", { class: "nav", "aria-label": t("shell.navigation") }, lists);
  }

  /**
   * @param {string} name
   * @param {string} href
   * @param {string} drawing
   */
  function link(name, href, drawing) {
    const isHere = page === name || (PARENT_PAGES[page ?? ""] === name && name !== page);
    return el("li", {}, el("a", { href, "aria-current": isHere ? "page" : null, data: { page: name } }, icon(drawing), el("span", {}, t(`${name}.title`))));
  }

  function foot() {
    const person = currentUser();
    const out = el("button", { class: "button-icon", type: "button", "aria-label": t("shell.sign_out"), title: t("shell.sign_out"), on: { click: leave } }, icon("signout"));
    const row =
      person === null || !currentSession().needs_keys
        ? null
        : el("div", { class: "side-who" }, el("div", {}, el("p", { class: "who-name" }, person.name), el("p", { class: "muted" }, t(`shell.scope_${person.scope.replace("-", "_")}`))), out);
    const queue = currentSession().queue && el("p", { class: "muted side-queue", title: currentSession().queue }, currentSession().queue);
    return el("div", { class: "side-foot" }, row, queue, el("p", { class: "muted" }, `Inturn ${currentSession().version ?? ""}`.trim()));
  }

  async function leave() {
    try {
      await signOut();
      await restart();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      toast(error.message, { kind: "error" });
    }
  }

  /** @param {string} text */
  function setTitle(text) {
    setText(title, text);
    trail.setCurrent(text);
    document.title = `${text} · Inturn`;
  }

  /**
   * Handle a page opened by the router: set the title, mark its link, move the focus to the heading.
   * @type {import("./router.js").OnOpen}
   */
  function opened(name, text, view, { isFirst, isAgain }) {
    page = name;
    const parents = parentLinks(name, shownView);
    trail.update(parents);
    shownView = view;
    setTitle(text);
    fill(actions);
    mark.hidden = name === "signin" || name === null;
    if (!isFirst && !isAgain) void strip.load();
    document.documentElement.classList.toggle("is-bare", name === "signin");
    for (const anchor of /** @type {NodeListOf<HTMLElement>} */ (side.querySelectorAll("a[data-page]"))) {
      const isHere = anchor.dataset.page === name || anchor.dataset.page === PARENT_PAGES[name ?? ""];
      setProp(anchor, "aria-current", isHere ? "page" : null);
    }
    if (view !== null) {
      view.setTitle = setTitle;
      view.setActions = (...nodes) => fill(actions, nodes);
      view.setTrail = (links) => trail.update([...parents, ...links]);
    }
    if (document.documentElement.classList.contains("menu-open")) openMenu(false, { quietly: true });
    if (!isFirst && !isAgain) title.focus({ preventScroll: true });
  }

  redraw();
  onStatusChange((status) => {
    mark.className = `live live-${status}`;
    setText(mark, t(`shell.live_${status}`));
  });
  return { nodes: [skip, top, side, shade, content], main, opened, loadNotices: strip.load, redraw: () => { redraw(); strip.redraw(); void strip.load(); setText(mark, t(`shell.live_${mark.className.split("live-")[1]}`)); } };
}

/**
 * The list that a page belongs to, as it was left if it was the page before.
 * @param {string | null} name
 * @param {View | null} before
 */
function parentLinks(name, before) {
  const parent = PARENT_PAGES[name ?? ""];
  if (parent === undefined || !isVisibleTo(routeOf(parent), currentUser())) return [];
  const query = before?.page === parent ? `?${before.query}` : "";
  return [{ text: t(`${parent}.title`), href: `${routeOf(parent).path}${query === "?" ? "" : query}` }];
}

function brand() {
  return el("a", { class: "brand", href: "/", "aria-label": "Inturn" }, el("img", { src: new URL("icon.svg", import.meta.url).href, alt: "", width: 26, height: 26 }), el("span", {}, "Inturn"));
}
