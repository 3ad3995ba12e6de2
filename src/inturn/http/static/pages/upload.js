// Files for one customer: chosen or dropped, sent one by one, and followed.

import { get } from "../api.js";
import { el, fill, keyed, setProp, setText } from "../dom.js";
import { bytes, percent } from "../format.js";
import { t } from "../i18n.js";
import { to } from "../routes.js";
import { seesAll, who } from "../session.js";
import { panel } from "../components/panel.js";
import { text } from "../components/fields.js";
import { icon } from "../components/icons.js";
import { levelBadge, stateBadge } from "../components/badges.js";
import { findCustomers, suggest } from "../components/combobox.js";
import { toast } from "../components/toast.js";
import { Receipt } from "./upload/receipt.js";
import { CHOSEN, DONE, FAILED, QUEUED, SENDING, STOPPED, sending } from "./upload/upload_queue.js";

const IDS = 100;

export async function mount(view) {
  const limits = await get("/v1/limits", { signal: view.signal });
  sending.use(who().name, limits);
  const page = new UploadPage(view, limits);
  fill(view.root, page.node);
  sending.watch(() => page.draw());
  view.onEnd(() => sending.watch(null));
  page.begin();
  return {};
}

class UploadPage {
  #view;
  #depth = 0;

  constructor(view, limits) {
    this.#view = view;
    this.customer = seesAll() ? suggest({ label: t("upload.customer"), hint: t("upload.customer_hint"), value: view.query.get("customer") ?? "", required: true, find: findCustomers, onChange: (name) => this.#chosen(name) }) : null;
    this.batch = text({ label: t("upload.batch"), hint: t("upload.batch_hint"), maxlength: 255 });
    this.input = el("input", { class: "hidden", type: "file", multiple: true, id: "upload-files", on: { change: () => this.#choose(this.input.files) } });
    const choose = el("label", { class: "button", for: "upload-files" }, icon("documents"), t("upload.choose"));
    this.zone = el(
      "div",
      { class: "upload-zone" },
      icon("upload"),
      el("p", { class: "upload-drop" }, t("upload.drop")),
      this.input,
      choose,
      el("p", { class: "muted" }, t("upload.limits", { size: bytes(limits.file) })),
    );
    this.submit = el("button", { class: "button button-primary", type: "submit" });
    this.news = el("p", { class: "hidden", role: "status" });
    const submit = (event) => {
      event.preventDefault();
      this.#submit();
    };
    const own = this.customer === null && el("p", {}, t("upload.own", { name: who().customer }));
    const form = el("form", { class: "form", novalidate: true, on: { submit } }, own, el("div", { class: "upload-fields" }, this.customer?.node, this.batch.node), this.zone, this.submit);
    this.list = el("ul", { class: "uploads" });
    this.clear = el("button", { class: "button button-small", type: "button", on: { click: () => this.#clear() } }, t("upload.clear"));
    this.files = panel(t("upload.files"), { actions: this.clear }, this.list, this.news);
    this.receipt = new Receipt();
    this.node = el("div", { class: "upload-columns" }, el("div", { class: "upload-column" }, panel(t("upload.what"), {}, form), this.files), this.receipt.node);
    this.draw();
  }

  /** Drops beside the zone would open the file instead of this page. */
  begin() {
    const { signal } = this.#view;
    const over = (event) => {
      if (![...event.dataTransfer.types].includes("Files")) return;
      event.preventDefault();
      event.dataTransfer.dropEffect = "copy";
    };
    const enter = (by) => {
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
        this.#drop(event.dataTransfer);
      },
      { signal },
    );
    this.#view.listen("*", (events) => this.#hear(events), 1_000);
  }

  #drop(transfer) {
    const entries = [...transfer.items].map((item) => [item.webkitGetAsEntry?.(), item.getAsFile()]);
    const isFolder = ([entry]) => entry?.isDirectory ?? false;
    if (entries.some(isFolder)) toast(t("upload.folders"), { kind: "error" });
    this.#choose(entries.filter((each) => !isFolder(each)).map(([, file]) => file).filter(Boolean));
  }

  #choose(files) {
    const found = [...files];
    if (found.length === 0) return;
    sending.add(found);
    this.input.value = ""; // the same file may be chosen once more
    setText(this.news, t("upload.chosen", { n: found.length }));
  }

  #chosen(name) {
    this.#view.setQuery({ customer: name }, { quietly: true });
    this.customer.setError(null);
    this.draw();
  }

  #submit() {
    const name = this.customer === null ? who().customer : this.customer.input.value.trim();
    if (!name) {
      this.customer.setError(t("upload.customer_missing"));
      this.customer.input.focus();
      return;
    }
    if (!sending.items.some((each) => each.state === CHOSEN)) {
      this.input.focus();
      return;
    }
    sending.start(name, this.batch.input.value.trim());
  }

  #clear() {
    sending.forget();
    this.input.focus();
  }

  draw() {
    const { items } = sending;
    const chosen = items.filter((each) => each.state === CHOSEN).length;
    setText(this.submit, chosen > 0 ? t("upload.submit", { n: chosen }) : t("upload.submit_none"));
    this.submit.disabled = chosen === 0;
    this.files.hidden = items.length === 0;
    this.clear.hidden = items.every((each) => [QUEUED, SENDING].includes(each.state));
    keyed(this.list, items, (each) => each.key, makeFile, updateFile);
    const arrived = items.filter((each) => each.state === DONE);
    if (arrived.length > 0 && !sending.isBusy && this.told !== arrived.length) {
      this.told = arrived.length;
      setText(this.news, t("upload.all_arrived", { n: arrived.length }));
    }
    this.receipt.update(arrived);
  }

  /** Receipts go on to say what became of their documents. */
  async #hear(events) {
    const heard = new Set(events.flatMap((each) => each.documents ?? []));
    const isReset = events.some((each) => each.kind === "reset");
    const wanted = sending.items.filter((each) => each.state === DONE && (isReset || heard.has(each.receipt.id))).slice(-IDS);
    if (wanted.length === 0) return;
    try {
      const page = await get("/v1/documents", { query: { id: wanted.map((each) => each.receipt.id) }, signal: this.#view.signal });
      const states = new Map(page.documents.map((each) => [each.id, each.state]));
      for (const each of wanted) if (states.has(each.receipt.id)) each.now = { state: states.get(each.receipt.id) };
      this.draw();
    } catch (wrong) {
      if (wrong.code === undefined && wrong.name !== "AbortError") throw wrong;
    }
  }
}

function makeFile(item) {
  const name = el("span", { class: "upload-name" }, item.file.name);
  const about = el("span", { class: "muted upload-about" });
  const mark = el("span", { class: "upload-mark" });
  const meter = el("span", { class: "upload-meter", role: "progressbar", "aria-label": item.file.name, "aria-valuemin": "0", "aria-valuemax": "100" }, el("span"));
  const error = el("p", { class: "upload-error", role: "alert" });
  const buttons = el("span", { class: "upload-buttons" });
  const node = el("li", { class: "upload" }, el("div", { class: "upload-head" }, name, about, mark, buttons), meter, error);
  Object.assign(node, { parts: { name, about, mark, meter, error, buttons } });
  updateFile(node, item);
  return node;
}

function updateFile(node, item) {
  const { name, about, mark, meter, error, buttons } = node.parts;
  const isSending = item.state === SENDING;
  const words = isSending ? (item.part < 1 ? percent(item.part, 0) : t("upload.writing")) : item.state === DONE ? "" : t(`upload.state_${item.state}`);
  setText(about, [bytes(item.file.size), words].filter(Boolean).join(" · "));
  meter.hidden = !isSending;
  meter.firstChild.style.setProperty("--part", String(item.part));
  setProp(meter, "aria-valuenow", Math.round(item.part * 100));
  setText(error, item.error ?? "");
  const key = `${item.state} ${item.part < 1} ${item.isFinal} ${item.now?.state}`;
  if (node.shownKey === key) return;
  node.shownKey = key;
  if (item.state === DONE && name.tagName !== "A") {
    node.parts.name = el("a", { class: "upload-name", href: to("document", { id: item.receipt.id }) }, item.file.name);
    name.replaceWith(node.parts.name);
  }
  const hadFocus = buttons.contains(document.activeElement);
  fill(mark, item.state === DONE && [levelBadge(item.receipt.level), stateBadge(item.now.state)]);
  fill(buttons, buttonsOf(item));
  if (hadFocus) (buttons.querySelector("button") ?? node.querySelector("a"))?.focus();
}

function buttonsOf(item) {
  const button = (label, call) => el("button", { class: "button button-small", type: "button", "aria-label": `${label}: ${item.file.name}`, on: { click: call } }, label);
  if (item.state === CHOSEN) return [button(t("upload.remove"), () => sending.remove(item))];
  if (item.state === QUEUED || (item.state === SENDING && item.part < 1)) return [button(t("upload.stop"), () => sending.stop(item))];
  if (item.state === FAILED || item.state === STOPPED) return [!item.isFinal && button(t("upload.again"), () => sending.again(item)), button(t("upload.remove"), () => sending.remove(item))];
  return [];
}
