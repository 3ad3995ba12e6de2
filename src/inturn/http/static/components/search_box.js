// The search of the top bar: documents, customers, batches, errors and pages by one text, in groups. Follows the ARIA
// combobox pattern with a grouped listbox; "/" and Ctrl+K lead to it from everywhere.

import { ApiError, get } from "../api.js";
import { debounce, el, fill, newId, setProp, setText } from "../dom.js";
import { t } from "../i18n.js";
import { navigate } from "../router.js";
import { NAVIGATION, isVisibleTo, pageUrl, routeOf } from "../routes.js";
import { currentUser, seesAll } from "../session.js";
import { stateBadge } from "./badges.js";
import { icon } from "./icons.js";

/**
 * @typedef {object} Item
 * @property {string} text
 * @property {import("../dom.js").Child} [note]
 * @property {string} href
 *
 * @typedef {{ label: string, items: Item[] }} Group
 */

const MATCHES_OF_A_KIND = 6;
const PAUSE_MS = 150;

/** Returns {node, redraw()}; redraw applies another language or user. */
export function searchBox() {
  const list = el("div", { class: "search-list", role: "listbox", id: newId("search"), hidden: true });
  const status = el("p", { class: "hidden", role: "status" });
  const input = el("input", {
    class: "input",
    type: "text",
    role: "combobox",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: 255,
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": list.id,
    "aria-keyshortcuts": "/ Control+K",
  });
  const key = el("kbd", { class: "search-key", "aria-hidden": "true" }, "/");
  const node = el("search", { class: "search-box" }, el("div", { class: "search" }, icon("search"), input, key), list, status);
  const narrow = matchMedia("(max-width: 859px)");
  let requestId = 0;
  let activeIndex = -1;

  /** @type {WeakMap<Element, string>} */
  const hrefs = new WeakMap();
  const options = () => /** @type {HTMLElement[]} */ ([...list.querySelectorAll("[role=option]")]);
  const searchLater = debounce(() => void search(), PAUSE_MS);

  async function search() {
    requestId += 1;
    const ownId = requestId;
    const text = input.value.trim();
    if (text === "") {
      close();
      return;
    }
    try {
      const matches = await get("/v1/search", { query: { q: text, limit: MATCHES_OF_A_KIND } });
      if (ownId === requestId && document.activeElement === input) show(groupsOf(matches, text), matches.is_complete);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (ownId === requestId) showNote(t("shell.search_failed", { reason: error.message }));
    }
  }

  /**
   * @param {Group[]} groups
   * @param {boolean} isComplete
   */
  function show(groups, isComplete) {
    const shown = groups.filter(({ items }) => items.length > 0);
    if (shown.length === 0) {
      showNote(isComplete ? t("shell.search_none") : `${t("shell.search_none")} ${t("shell.search_incomplete")}`);
      return;
    }
    fill(list, shown.map(makeGroup), !isComplete && el("p", { class: "muted search-note" }, t("shell.search_incomplete")));
    open();
    setText(status, t("shell.search_matches", { n: options().length }));
  }

  /** @param {string} text */
  function showNote(text) {
    fill(list, el("p", { class: "muted search-note" }, text));
    open();
    setText(status, text);
  }

  function open() {
    activeIndex = -1;
    setProp(input, "aria-activedescendant", null);
    list.hidden = false;
    setProp(input, "aria-expanded", "true");
  }

  function close() {
    requestId += 1;
    activeIndex = -1;
    list.hidden = true;
    setProp(input, "aria-expanded", "false");
    setProp(input, "aria-activedescendant", null);
    setText(status, "");
  }

  /** @param {Group} group */
  function makeGroup({ label, items }) {
    const heading = el("p", { class: "menu-heading", id: newId("heading") }, label);
    return el("div", { role: "group", "aria-labelledby": heading.id }, heading, items.map(makeOption));
  }

  /** @param {Item} item */
  function makeOption({ text, note, href }) {
    const on = { mousedown: (/** @type {Event} */ event) => event.preventDefault(), click: () => choose(href) };
    const option = el("div", { class: "suggestion search-option", role: "option", id: newId("option"), "aria-selected": "false", on }, el("span", { class: "search-text" }, text), note && el("span", { class: "muted search-about" }, note));
    hrefs.set(option, href);
    return option;
  }

  /** @param {number} to */
  function highlight(to) {
    const all = options();
    if (all.length === 0) return;
    activeIndex = (to + all.length) % all.length;
    all.forEach((option, index) => setProp(option, "aria-selected", String(index === activeIndex)));
    setProp(input, "aria-activedescendant", all[activeIndex].id);
    all[activeIndex].scrollIntoView({ block: "nearest" });
  }

  /** @param {string} href */
  function choose(href) {
    input.value = "";
    close();
    input.blur();
    void navigate(href);
  }

  input.addEventListener("input", searchLater);
  input.addEventListener("focus", () => {
    if (input.value.trim() !== "") void search();
  });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const isOpen = !list.hidden;
    if (event.key === "ArrowDown" && isOpen) highlight(activeIndex + 1);
    else if (event.key === "ArrowUp" && isOpen) highlight(activeIndex < 0 ? -1 : activeIndex - 1);
    else if (event.key === "Enter") {
      const chosen = options()[Math.max(0, activeIndex)];
      const href = chosen === undefined ? undefined : hrefs.get(chosen);
      if (isOpen && href !== undefined) choose(href);
      else void search();
    } else if (event.key === "Escape") {
      if (isOpen) close();
      else input.value = "";
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  narrow.addEventListener("change", redraw);
  document.addEventListener("keydown", (event) => {
    if (!isShortcut(event) || node.hidden || document.querySelector("dialog[open]") !== null) return;
    event.preventDefault();
    input.focus();
    input.select();
  });

  function redraw() {
    node.hidden = currentUser() === null;
    setProp(input, "aria-label", t("shell.search"));
    setProp(input, "placeholder", t(narrow.matches ? "shell.search" : "shell.search_hint"));
    setProp(list, "aria-label", t("shell.search"));
    close();
  }

  return { node, redraw };
}

/** @param {KeyboardEvent} event */
function isShortcut(event) {
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) return true;
  const isTyping = event.target instanceof Element && event.target.closest("input, textarea, select, [contenteditable]") !== null;
  return event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey;
}

/**
 * @param {Api.SearchResult} matches
 * @param {string} text
 * @returns {Group[]}
 */
function groupsOf(matches, text) {
  return [
    { label: t("shell.search_documents"), items: matches.documents.map(documentItem) },
    { label: t("shell.search_customers"), items: matches.customers.map(({ customer, display_name: name }) => ({ text: name ?? customer, note: name && customer, href: pageUrl("customer", { name: customer }) })) },
    { label: t("shell.search_batches"), items: matches.batches.map((batch) => ({ text: batch, href: pageUrl("documents", {}, { batch }) })) },
    { label: t("shell.search_errors"), items: matches.errors.map(({ line, documents: n, newest }) => ({ text: line, note: t("shell.search_failures", { n }), href: pageUrl("document", { id: newest }) })) },
    { label: t("shell.search_pages"), items: pagesNamed(text) },
  ];
}

/** @param {Api.Document} document */
function documentItem({ id, name, customer, state }) {
  return { text: name, note: [seesAll() && `${customer} · `, stateBadge(state)], href: pageUrl("document", { id }) };
}

/** @param {string} text */
function pagesNamed(text) {
  const pages = NAVIGATION.flat().filter((page) => isVisibleTo(routeOf(page), currentUser()));
  const wanted = text.toLocaleLowerCase();
  return pages.filter((page) => t(`${page}.title`).toLocaleLowerCase().includes(wanted)).map((page) => ({ text: t(`${page}.title`), href: pageUrl(page) }));
}
