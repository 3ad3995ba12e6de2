// A document's result. Text is only ever shown as text, never as HTML.

import { get } from "../../api.js";
import { el, fill, setProp, setText } from "../../dom.js";
import { bytes } from "../../format.js";
import { t } from "../../i18n.js";
import { icon } from "../../components/icons.js";
import { panel } from "../../components/panel.js";
import { segments } from "../../components/segments.js";

/** @import { View } from "../../router.js" */

const PREVIEW_CHARACTERS = 1_500;
const MAX_SHOWN_CHARACTERS = 500_000;

/** @typedef {{ result: any, files: Api.ResultFile[], path: string }} Shown a result, and the address that its files are below */

export class ResultPanel {
  #view;
  #key = "";

  /**
   * @param {View} view
   * @param {`/v1/documents/${string}`} path
   */
  constructor(view, path) {
    this.#view = view;
    this.path = path;
    this.body = el("div", { class: "result-body" });
    this.choice = el("div", { class: "result-steps" });
    this.link = el("a", { class: "button button-small", download: "result.json" }, icon("down"), t("document.result_download"));
    this.node = panel(t("document.result"), { actions: this.link, className: "document-result" }, this.choice, this.body);
    this.node.hidden = true;
  }

  /**
   * Of a document that passed a step, the results of all its steps; of another one its own, once it is done.
   * @param {Api.Document} doc
   */
  async follow(doc) {
    const key = `${doc.step} ${doc.state === "done" ? doc.finished_at : ""}`;
    if (key === this.#key) return;
    this.node.hidden = doc.step === 0 && doc.state !== "done";
    if (doc.step > 0) await this.#followSteps();
    else if (doc.state === "done") {
      this.link.href = `${this.path}/result`;
      fill(this.choice);
      this.#draw({ ...(await get(`${this.path}/result`, { signal: this.#view.signal })), path: this.path });
    }
    this.#key = key;
  }

  /** Show the last step's result, with a choice of the others. */
  async #followSteps() {
    const { results } = await get(`${this.path}/results`, { signal: this.#view.signal });
    this.node.hidden = results.length === 0;
    if (results.length === 0) return;
    this.link.href = `${this.path}/results`;
    const last = results[results.length - 1];
    const pick = (/** @type {string} */ step) => {
      const { result, result_file: file, files } = results.find((item) => String(item.step) === step) ?? last;
      this.#draw({ result, files: file === null ? files : [file, ...files], path: `${this.path}/results/${step}` });
    };
    const options = results.map((item) => /** @type {const} */ ([String(item.step), item.queue]));
    fill(this.choice, segments({ label: t("document.result_steps"), options, value: String(last.step), pick }).node);
    pick(String(last.step));
  }

  /** @param {Shown} shown */
  #draw({ result, files, path }) {
    const text = typeof result === "string" ? result : typeof result?.text === "string" ? result.text : null;
    const rest = text === null ? result : typeof result === "string" ? null : omit(result, "text");
    const isMore = rest !== null && rest !== undefined && (typeof rest !== "object" || Object.keys(rest).length > 0);
    fill(
      this.body,
      text !== null && (text === "" ? el("p", { class: "muted" }, t("document.result_no_text")) : textPreview(text, t("document.result_text"))),
      isMore && this.#more(rest, text !== null),
      text === null && !isMore && files.every((file) => file.name !== "result.json") && el("p", { class: "muted" }, t("document.result_none")),
      files.length > 0 && this.#files(files, path),
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

  /**
   * @param {Api.ResultFile[]} files
   * @param {string} path
   */
  #files(files, path) {
    const one = (/** @type {Api.ResultFile} */ file) => {
      const href = `${path}/files/${file.name.split("/").map(encodeURIComponent).join("/")}`;
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
