// Upload files for one customer, chosen or dropped, and show the state of their documents.

import { get, ignoreRequestError } from "../api.js";
import { el, fill, reconcileChildren, setProp, setText } from "../dom.js";
import { bytes, formatLimit, percent } from "../format.js";
import { t } from "../i18n.js";
import { pageUrl } from "../routes.js";
import { currentUser, seesAll } from "../session.js";
import { levelBadge, stateBadge } from "../components/badges.js";
import { combobox, findCustomers } from "../components/combobox.js";
import { textField } from "../components/fields.js";
import { icon } from "../components/icons.js";
import { panel } from "../components/panel.js";
import { toast } from "../components/toast.js";
import { ReceiptPanel } from "./upload/receipt.js";
import { CHOSEN, DONE, FAILED, QUEUED, SENDING, STOPPED, isArrived, uploadQueue } from "./upload/upload_queue.js";

/** @import { View } from "../router.js" */
/** @import { QueueEvent } from "../events.js" */

/** @import { Item } from "./upload/upload_queue.js" */
/** @typedef {HTMLElement & { shownKey: string, parts: Record<"name" | "about" | "mark" | "meter" | "error" | "buttons", HTMLElement> & { bar: HTMLElement } }} FileRow */

const MAX_IDS_PER_REQUEST = 100;

/** @param {View} view */
export async function mount(view) {
  const limits = await get("/v1/limits", { signal: view.signal });
  uploadQueue.use(currentUser()?.name ?? "", limits);
  const page = new UploadPage(view, limits);
  fill(view.root, page.node);
  uploadQueue.watch(() => page.draw());
  view.onEnd(() => uploadQueue.watch(null));
  page.begin();
  return {};
}

class UploadPage {
  #view;
  #depth = 0;
  announcedCount = 0;

  /**
   * @param {View} view
   * @param {Api.UploadLimits} limits
   */
  constructor(view, limits) {
    this.#view = view;
    this.customer = seesAll() ? combobox({ label: t("upload.customer"), hint: t("upload.customer_hint"), value: view.query.get("customer") ?? "", required: true, find: findCustomers, onChange: (name) => this.#chosen(name) }) : null;
    this.batch = textField({ label: t("upload.batch"), hint: t("upload.batch_hint"), maxlength: 255 });
    /** @type {HTMLInputElement} */
    this.input = el("input", { class: "hidden", type: "file", multiple: true, id: "upload-files", on: { change: () => this.#choose(this.input.files ?? []) } });
    const choose = el("label", { class: "button", for: "upload-files" }, icon("documents"), t("upload.choose"));
    this.zone = el(
      "div",
      { class: "upload-zone" },
      icon("upload"),
      el("p", { class: "upload-drop" }, t("upload.drop")),
      this.input,
      choose,
      el("p", { class: "muted" }, t("upload.limits", { size: formatLimit(limits.file) })),
    );
    this.submit = el("button", { class: "button button-primary", type: "submit" });
    this.news = el("p", { class: "hidden", role: "status" });
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      this.#submit();
    };
    const own = this.customer === null && el("p", {}, t("upload.own", { name: currentUser()?.customer }));
    const form = el("form", { class: "form", novalidate: true, on: { submit } }, own, el("div", { class: "upload-fields" }, this.customer?.node, this.batch.node), this.zone, this.submit);
    this.list = el("ul", { class: "uploads" });
    this.clear = el("button", { class: "button button-small", type: "button", on: { click: () => this.#clear() } }, t("upload.clear"));
    this.files = panel(t("upload.files"), { actions: this.clear }, this.list, this.news);
    this.receipt = new ReceiptPanel();
    this.node = el("div", { class: "upload-columns" }, el("div", { class: "upload-column" }, panel(t("upload.what"), {}, form), this.files), this.receipt.node);
    this.draw();
  }

  /** Accept drops anywhere: beside the zone the browser would open the file instead of this page. */
  begin() {
    const { signal } = this.#view;
    const over = (/** @type {DragEvent} */ event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
    };
    const enter = (/** @type {number} */ by) => {
      this.#depth = Math.max(0, this.#depth + by);
      this.zone.classList.toggle("is-over", this.#depth > 0);
    };
    window.addEventListener("dragenter", () => enter(1), { signal });
    window.addEventListener("dragleave", () => enter(-1), { signal });
    window.addEventListener("dragover", over, { signal });
    window.addEventListener(
      "drop",
      (event) => {
        event.preventDefault();
        enter(-this.#depth);
        if (event.dataTransfer !== null) this.#drop(event.dataTransfer);
      },
      { signal },
    );
    this.#view.listen("*", (events) => this.#onEvents(events), 1_000);
  }

  /** @param {DataTransfer} transfer */
  #drop(transfer) {
    const entries = [...transfer.items].map((item) => ({ isFolder: item.webkitGetAsEntry?.()?.isDirectory ?? false, file: item.getAsFile() }));
    if (entries.some(({ isFolder }) => isFolder)) toast(t("upload.folders"), { kind: "error" });
    this.#choose(entries.flatMap(({ isFolder, file }) => (isFolder || file === null ? [] : [file])));
  }

  /** @param {Iterable<File>} files */
  #choose(files) {
    const chosen = [...files];
    if (chosen.length === 0) return;
    uploadQueue.add(chosen);
    this.input.value = ""; // the same file may be chosen again
    setText(this.news, t("upload.chosen", { n: chosen.length }));
  }

  /** @param {string} name */
  #chosen(name) {
    this.#view.setQuery({ customer: name }, { quietly: true });
    this.customer?.setError(null);
    this.draw();
  }

  #submit() {
    const name = this.customer === null ? currentUser()?.customer : this.customer.input.value.trim();
    if (!name) {
      this.customer?.setError(t("upload.customer_missing"));
      this.customer?.input.focus();
      return;
    }
    if (!uploadQueue.items.some((item) => item.state === CHOSEN)) {
      this.input.focus();
      return;
    }
    uploadQueue.start(name, this.batch.input.value.trim());
  }

  #clear() {
    uploadQueue.forget();
    this.input.focus();
  }

  draw() {
    const { items } = uploadQueue;
    const chosen = items.filter((item) => item.state === CHOSEN).length;
    setText(this.submit, chosen > 0 ? t("upload.submit", { n: chosen }) : t("upload.submit_none"));
    this.submit.disabled = chosen === 0;
    this.files.hidden = items.length === 0;
    this.clear.hidden = items.every((item) => [QUEUED, SENDING].includes(item.state));
    reconcileChildren(this.list, items, (item) => item.key, makeFileRow, updateFileRow);
    const { arrived } = uploadQueue;
    if (arrived.length > 0 && !uploadQueue.isBusy && this.announcedCount !== arrived.length) {
      this.announcedCount = arrived.length;
      setText(this.news, t("upload.all_arrived", { n: arrived.length }));
    }
    this.receipt.update(arrived);
  }

  /**
   * Fetch the states of uploaded documents after events.
   * @param {QueueEvent[]} events
   */
  async #onEvents(events) {
    const changedIds = new Set(events.flatMap((event) => event.documents ?? []));
    const isReset = events.some((event) => event.kind === "reset");
    const wanted = uploadQueue.arrived.filter((item) => isReset || changedIds.has(item.receipt.id)).slice(-MAX_IDS_PER_REQUEST);
    if (wanted.length === 0) return;
    try {
      const page = await get("/v1/documents", { query: { id: wanted.map((item) => item.receipt.id) }, signal: this.#view.signal });
      const states = new Map(page.documents.map((row) => [row.id, row.state]));
      for (const item of wanted) item.now = { state: states.get(item.receipt.id) ?? item.now.state };
      this.draw();
    } catch (error) {
      ignoreRequestError(error);
    }
  }
}

/** @param {Item} item */
function makeFileRow(item) {
  const name = el("span", { class: "upload-name" }, item.file.name);
  const about = el("span", { class: "muted upload-about" });
  const mark = el("span", { class: "upload-mark" });
  const bar = el("span");
  const meter = el("span", { class: "upload-meter", role: "progressbar", "aria-label": item.file.name, "aria-valuemin": "0", "aria-valuemax": "100" }, bar);
  const error = el("p", { class: "upload-error", role: "alert" });
  const buttons = el("span", { class: "upload-buttons" });
  /** @type {FileRow} */
  const node = Object.assign(el("li", { class: "upload" }, el("div", { class: "upload-head" }, name, about, mark, buttons), meter, error), { shownKey: "", parts: { name, about, mark, meter, bar, error, buttons } });
  updateFileRow(node, item);
  return node;
}

/**
 * @param {FileRow} node
 * @param {Item} item
 */
function updateFileRow(node, item) {
  const { name, about, mark, meter, bar, error, buttons } = node.parts;
  const isSending = item.state === SENDING;
  const words = isSending ? (item.part < 1 ? percent(item.part, 0) : t("upload.writing")) : item.state === DONE ? "" : t(`upload.state_${item.state}`);
  setText(about, [bytes(item.file.size), words].filter(Boolean).join(" · "));
  meter.hidden = !isSending;
  bar.style.setProperty("--part", String(item.part));
  setProp(meter, "aria-valuenow", Math.round(item.part * 100));
  setText(error, item.error ?? "");
  const key = `${item.state} ${item.part < 1} ${item.isFinal} ${item.now.state}`;
  if (node.shownKey === key) return;
  node.shownKey = key;
  if (isArrived(item) && name.tagName !== "A") {
    node.parts.name = el("a", { class: "upload-name", href: pageUrl("document", { id: item.receipt.id }) }, item.file.name);
    name.replaceWith(node.parts.name);
  }
  const hadFocus = buttons.contains(document.activeElement);
  fill(mark, isArrived(item) && [levelBadge(item.receipt.level), stateBadge(item.now.state)]);
  fill(buttons, fileButtons(item));
  if (hadFocus) (buttons.querySelector("button") ?? node.querySelector("a"))?.focus();
}

/** @param {Item} item */
function fileButtons(item) {
  const button = (/** @type {string} */ label, /** @type {() => void} */ call) => el("button", { class: "button button-small", type: "button", "aria-label": `${label}: ${item.file.name}`, on: { click: call } }, label);
  if (item.state === CHOSEN) return [button(t("upload.remove"), () => uploadQueue.remove(item))];
  if (item.state === QUEUED || (item.state === SENDING && item.part < 1)) return [button(t("upload.stop"), () => uploadQueue.stop(item))];
  if (item.state === FAILED || item.state === STOPPED) return [!item.isFinal && button(t("upload.again"), () => uploadQueue.retry(item)), button(t("upload.remove"), () => uploadQueue.remove(item))];
  return [];
}
