// A document's result. Text is only ever shown as text, never as HTML.

import { get } from "../../api.js";
import { el, fill, setProp, setText } from "../../dom.js";
import { bytes } from "../../format.js";
import { t } from "../../i18n.js";
import { icon } from "../../components/icons.js";
import { panel } from "../../components/panel.js";

/** @import { View } from "../../router.js" */

const PREVIEW_CHARACTERS = 1_500;
const MAX_SHOWN_CHARACTERS = 500_000;

export class ResultPanel {
  #view;
  /** @type {number | null} */
  #shown = null;

  /**
   * @param {View} view
   * @param {string} path
   */
  constructor(view, path) {
    this.#view = view;
    this.path = path;
    this.body = el("div", { class: "result-body" });
    this.link = el("a", { class: "button button-small", href: `${path}/result`, download: "result.json" }, icon("down"), t("document.result_download"));
    this.node = panel(t("document.result"), { actions: this.link, className: "document-result" }, this.body);
    this.node.hidden = true;
  }

  /** @param {Api.Document} doc */
  async follow(doc) {
    this.node.hidden = doc.state !== "done";
    if (doc.state !== "done" || this.#shown === doc.finished_at) return;
    const { result, files } = await get(`${this.path}/result`, { signal: this.#view.signal });
    this.#shown = doc.finished_at;
    const text = typeof result === "string" ? result : typeof result?.text === "string" ? result.text : null;
    const rest = text === null ? result : typeof result === "string" ? null : omit(result, "text");
    const isMore = rest !== null && rest !== undefined && (typeof rest !== "object" || Object.keys(rest).length > 0);
    fill(
      this.body,
      text !== null && (text === "" ? el("p", { class: "muted" }, t("document.result_no_text")) : textPreview(text, t("document.result_text"))),
      isMore && this.#more(rest, text !== null),
      text === null && !isMore && el("p", { class: "muted" }, t("document.result_none")),
      files.length > 0 && this.#files(files),
    );
  }

  /**
   * @param {unknown} rest
   * @param {boolean} isFolded
   */
  #more(rest, isFolded) {
    const body = textPreview(JSON.stringify(rest, null, 2), t("document.result_more"));
    return isFolded ? el("details", {}, el("summary", {}, t("document.result_more")), body) : body;
  }

  /** @param {Api.ResultFile[]} files */
  #files(files) {
    const one = (/** @type {Api.ResultFile} */ file) => {
      const href = `${this.path}/files/${file.name.split("/").map(encodeURIComponent).join("/")}`;
      const about = [bytes(file.size), file.media_type].filter(Boolean).join(" · ");
      return el("li", {}, el("a", { href, download: file.name.split("/").at(-1) }, icon("down"), el("span", {}, file.name)), el("span", { class: "muted" }, about));
    };
    return el("div", { class: "result-files" }, el("h3", {}, t("document.files", { n: files.length })), el("ul", {}, files.map(one)));
  }
}

/**
 * A text as a text. Show the first PREVIEW_CHARACTERS, and at most MAX_SHOWN_CHARACTERS on demand. Longer texts are for downloading.
 * @param {string} text
 * @param {string} label
 */
export function textPreview(text, label) {
  const pre = el("pre", { class: "document-text", tabindex: "0", role: "region", "aria-label": label }, text.length > PREVIEW_CHARACTERS ? `${text.slice(0, PREVIEW_CHARACTERS)}…` : text);
  if (text.length <= PREVIEW_CHARACTERS) return pre;
  const button = el("button", { class: "button button-small", type: "button", "aria-expanded": "false" }, t("document.show_all", { n: text.length }));
  button.addEventListener("click", () => {
    const isOpen = button.getAttribute("aria-expanded") === "true";
    setProp(button, "aria-expanded", String(!isOpen));
    setText(button, isOpen ? t("document.show_all", { n: text.length }) : t("document.show_less"));
    setText(pre, isOpen ? `${text.slice(0, PREVIEW_CHARACTERS)}…` : text.length > MAX_SHOWN_CHARACTERS ? `${text.slice(0, MAX_SHOWN_CHARACTERS)}…` : text);
  });
  return el("div", { class: "document-cut" }, pre, button);
}

/**
 * @param {Record<string, unknown>} value
 * @param {string} name
 */
function omit(value, name) {
  const { [name]: _, ...rest } = value;
  return rest;
}
