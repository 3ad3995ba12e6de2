// The frame of every page: navigation, title, status indicator, language and theme.

import { el, fill, setProp, setText } from "./dom.js";
import { onStatusChange } from "./events.js";
import { t } from "./i18n.js";
import { NAVIGATION, isVisibleTo, routeOf } from "./routes.js";
import { currentSession, currentUser, signOut } from "./session.js";
import { languageChoice, themeChoice } from "./components/choices.js";
import { icon } from "./components/icons.js";
import { toast } from "./components/toast.js";

const PARENT_PAGES = { customer: "customers", document: "documents" };

/** restart() redraws everything. Returns {nodes, main, opened, redraw}. */
export function buildShell({ restart }) {
  const side = el("aside", { class: "side", id: "side" });
  const title = el("h1", { class: "title", tabindex: "-1" });
  const mark = el("p", { class: "live", role: "status" });
  const actions = el("div", { class: "title-actions" });
  const main = el("div", { class: "outlet" });
  const skip = el("a", { class: "skip", href: "#main" });
  const menu = el("button", { class: "button-icon menu", type: "button", "aria-controls": "side", on: { click: () => openMenu(true) } }, icon("menu"));
  const top = el("header", { class: "top" }, menu, brand());
  const shade = el("div", { class: "shade", on: { click: () => openMenu(false) } });
  const content = el("main", { id: "main", class: "main" }, el("header", { class: "title-row" }, title, mark, actions), main);
  let page = null;

  skip.addEventListener("click", (event) => {
    event.preventDefault();
    title.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.documentElement.classList.contains("menu-open")) openMenu(false);
  });
  matchMedia("(max-width: 859px)").addEventListener("change", () => openMenu(false, { quietly: true }));

  function openMenu(isOpen, { quietly = false } = {}) {
    document.documentElement.classList.toggle("menu-open", isOpen);
    const isNarrow = matchMedia("(max-width: 859px)").matches;
    side.inert = isNarrow && !isOpen;
    content.inert = isNarrow && isOpen;
    setProp(menu, "aria-expanded", String(isOpen));
    if (quietly || !isNarrow) return;
    if (isOpen) side.querySelector("a, button")?.focus();
    else menu.focus();
  }

  function redraw() {
    setText(skip, t("shell.skip"));
    setProp(menu, "aria-label", t("shell.menu"));
    fill(side, el("div", { class: "side-head" }, brand(), closeButton()), navigation(), foot());
    openMenu(false, { quietly: true });
  }

  function closeButton() {
    return el("button", { class: "button-icon side-close", type: "button", "aria-label": t("shell.close"), on: { click: () => openMenu(false) } }, icon("close"));
  }

  function navigation() {
    const groups = currentUser() === null ? [] : NAVIGATION.map((group) => group.filter((name) => isVisibleTo(routeOf(name), currentUser()))).filter((group) => group.length > 0);
    const own = currentUser()?.customer ? [link("customer", `/customers/${encodeURIComponent(currentUser().customer)}`, "customers")] : [];
    const lists = groups.map((group, index) => el("ul", {}, index === 0 ? own : null, group.map((name) => link(name, routeOf(name).path, name))));
    return el("nav", { class: "nav", "aria-label": t("shell.navigation") }, lists);
  }

  function link(name, href, drawing) {
    const isHere = page === name || (PARENT_PAGES[page] === name && name !== page);
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
    return el("div", { class: "side-foot" }, row, el("div", { class: "side-choices" }, choices()), queue, el("p", { class: "muted" }, `Inturn ${currentSession().version ?? ""}`.trim()));
  }

  async function leave() {
    try {
      await signOut();
      await restart();
    } catch (error) {
      toast(error.message, { kind: "error" });
    }
  }

  function choices() {
    return [
      ["language", languageChoice(), t("shell.language")],
      ["theme", themeChoice(), t("shell.theme")],
    ].map(([name, { options, value, pick }, label]) => {
      const optionNodes = options.map(([key, text]) => el("option", { value: key, selected: key === value, lang: name === "language" ? key : null }, text));
      const input = el("select", { class: "input", id: name, "aria-label": label, data: { choice: name }, on: { change: () => pick(input) } }, optionNodes);
      return input;
    });
  }

  function setTitle(text) {
    setText(title, text);
    document.title = `${text} · Inturn`;
  }

  /** Handle a page opened by the router: set the title, mark its link, move the focus to the heading. */
  function opened(name, text, view, { isFirst = false, isAgain = false } = {}) {
    page = name;
    setTitle(text);
    fill(actions);
    mark.hidden = name === "signin" || name === null;
    document.documentElement.classList.toggle("is-bare", name === "signin");
    for (const anchor of side.querySelectorAll("a[data-page]")) {
      const isHere = anchor.dataset.page === name || anchor.dataset.page === PARENT_PAGES[name];
      setProp(anchor, "aria-current", isHere ? "page" : null);
    }
    if (view !== null) {
      view.setTitle = setTitle;
      view.setActions = (...nodes) => fill(actions, nodes);
    }
    if (document.documentElement.classList.contains("menu-open")) openMenu(false, { quietly: true });
    if (!isFirst && !isAgain) title.focus({ preventScroll: true });
  }

  redraw();
  onStatusChange((status) => {
    mark.className = `live live-${status}`;
    setText(mark, t(`shell.live_${status}`));
  });
  return { nodes: [skip, top, side, shade, content], main, opened, redraw: () => { redraw(); setText(mark, t(`shell.live_${mark.className.split("live-")[1]}`)); } };
}

function brand() {
  return el("a", { class: "brand", href: "/" }, el("img", { src: new URL("icon.svg", import.meta.url).href, alt: "", width: 26, height: 26 }), el("span", {}, "Inturn"));
}
