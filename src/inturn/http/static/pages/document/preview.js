// A document's own content beside its result: text as text, and images as pixels of a canvas. Nothing is opened as a
// page: no address of the content stands in the document, and what could run script (SVG, HTML, PDF) is text or a note.

import { ApiError, isAbort, readStart } from "../../api.js";
import { el, fill } from "../../dom.js";
import { bytes, number } from "../../format.js";
import { t } from "../../i18n.js";
import { panel } from "../../components/panel.js";
import { imageSize } from "./image_size.js";
import { textPreview } from "./result.js";

/** @import { View } from "../../router.js" */

const TEXT_TYPES = /^(text\/|message\/rfc822$|application\/(json|xml|x-ndjson|yaml|toml)$|image\/svg\+xml$|.*\+(json|xml)$)/;
const MAX_TEXT_BYTES = 64_000;
const MAX_IMAGE_BYTES = 10_000_000;
const MAX_PIXELS = 40_000_000;
/** Larger images are loaded when they are asked for. */
const EAGER_BYTES = 2_000_000;

export class PreviewPanel {
  #view;
  #path;
  /** @type {string | null} */
  #shown = null;

  /**
   * @param {View} view
   * @param {string} path
   */
  constructor(view, path) {
    this.#view = view;
    this.#path = `${path}/content`;
    this.body = el("div", { class: "preview-body" });
    this.node = panel(t("document.preview"), { className: "document-preview" }, this.body);
    this.node.hidden = true;
  }

  /** @param {Api.Document} doc */
  async follow(doc) {
    this.node.hidden = !doc.has_content;
    if (!doc.has_content || this.#shown === doc.id) return;
    this.#shown = doc.id;
    const isText = TEXT_TYPES.test(doc.media_type ?? "");
    if (!isText && (doc.size ?? 0) > MAX_IMAGE_BYTES) this.#note(t("document.preview_too_large", { size: bytes(MAX_IMAGE_BYTES) }));
    else if (isText || (doc.size ?? 0) <= EAGER_BYTES) await this.#load(isText);
    else fill(this.body, el("button", { class: "button button-small", type: "button", on: { click: () => this.#load(isText) } }, t("document.preview_load", { size: bytes(doc.size ?? 0) })));
  }

  /** @param {boolean} isText */
  async #load(isText) {
    try {
      const { data, isWhole } = await readStart(this.#path, isText ? MAX_TEXT_BYTES : MAX_IMAGE_BYTES, this.#view.signal);
      if (isText) this.#showText(data, isWhole);
      else await this.#showImage(data, isWhole);
    } catch (error) {
      if (isAbort(error)) return;
      if (!(error instanceof ApiError)) throw error;
      this.#note(error.message);
    }
  }

  /**
   * @param {Uint8Array<ArrayBuffer>} data
   * @param {boolean} isWhole
   */
  #showText(data, isWhole) {
    const text = new TextDecoder().decode(data);
    const label = t("document.preview_text");
    fill(this.body, text === "" ? el("p", { class: "muted" }, t("document.preview_empty")) : textPreview(text, label), !isWhole && el("p", { class: "muted" }, t("document.preview_cut", { size: bytes(MAX_TEXT_BYTES) })));
  }

  /**
   * Draw the image's pixels. The browser decodes it, so its size is read first: a small file may hold a huge image.
   * @param {Uint8Array<ArrayBuffer>} data
   * @param {boolean} isWhole
   */
  async #showImage(data, isWhole) {
    const size = imageSize(data);
    if (size === null || !isWhole) {
      this.#note(t("document.preview_none"));
      return;
    }
    const [width, height] = size.pixels;
    if (width * height > MAX_PIXELS) {
      this.#note(t("document.preview_too_many_pixels", { width, height }));
      return;
    }
    const bitmap = await createImageBitmap(new Blob([data], { type: size.type })).catch(() => null);
    if (bitmap === null) {
      this.#note(t("document.preview_none"));
      return;
    }
    const label = t("document.preview_image", { width: number(width), height: number(height) });
    const canvas = el("canvas", { class: "preview-image", width: bitmap.width, height: bitmap.height, role: "img", "aria-label": label });
    canvas.getContext("2d")?.drawImage(bitmap, 0, 0);
    bitmap.close();
    fill(this.body, canvas);
  }

  /** @param {string} text */
  #note(text) {
    fill(this.body, el("p", { class: "muted" }, text));
  }
}
