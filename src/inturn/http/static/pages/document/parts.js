// The parts that a document was split into, by number, with what became of each.

import { get } from "../../api.js";
import { el, fill, setText } from "../../dom.js";
import { number } from "../../format.js";
import { t } from "../../i18n.js";
import { pageUrl } from "../../routes.js";
import { stateBadge } from "../../components/badges.js";
import { loadMoreButton } from "../../components/paging.js";
import { panel } from "../../components/panel.js";
import { table } from "../../components/table.js";

/** @import { Column } from "../../components/table.js" */
/** @import { View } from "../../router.js" */

const PAGE_SIZE = 50;
const MAX_REFRESHED = 1_000;

export class PartsPanel {
  #view;
  #id;
  /** @type {Api.Document[]} */
  #parts = [];
  /** @type {string | null} */
  #next = null;
  #isBusy = false;

  /**
   * @param {View} view
   * @param {string} id
   */
  constructor(view, id) {
    this.#view = view;
    this.#id = id;
    this.counts = el("p", { class: "parts-counts" });
    this.table = table({ caption: t("document.parts"), keyOf: (part) => part.id, hrefOf: (part) => pageUrl("document", { id: part.id }), columns: columns() });
    this.more = loadMoreButton(() => this.#loadMore());
    const all = el("a", { href: pageUrl("documents", {}, { parent: id }) }, t("document.parts_all"));
    this.node = panel(t("document.parts"), { className: "panel-flush document-split", actions: all }, this.counts, this.table.node, this.more.node);
    this.node.hidden = true;
  }

  /**
   * Load again what is shown. A document without a step behind it has no parts.
   * @param {Api.Document} doc
   */
  async follow(doc) {
    if (doc.state !== "split" && doc.step === 0) {
      this.node.hidden = true;
      return;
    }
    const { signal } = this.#view;
    const limit = Math.min(MAX_REFRESHED, Math.max(PAGE_SIZE, this.#parts.length));
    const [counts, page] = await Promise.all([get("/v1/documents/counts", { query: { parent: this.#id }, signal }), this.#fetch({ limit })]);
    if (this.#parts.length <= limit) [this.#parts, this.#next] = [page.documents, page.next];
    this.node.hidden = counts.documents === 0;
    const states = /** @type {[Api.DocumentState, number][]} */ (Object.entries(counts.states)).filter(([, n]) => n > 0);
    fill(this.counts, states.map(([state, n]) => el("a", { class: "parts-count", href: pageUrl("documents", {}, { parent: this.#id, state }) }, stateBadge(state), " ", number(n))));
    this.#draw();
  }

  async #loadMore() {
    this.#isBusy = true;
    this.#draw();
    try {
      const page = await this.#fetch({ limit: PAGE_SIZE, after: this.#next });
      this.#parts = [...this.#parts, ...page.documents];
      this.#next = page.next;
    } finally {
      this.#isBusy = false;
      this.#draw();
    }
  }

  /** @param {{ limit: number, after?: string | null }} range */
  #fetch(range) {
    return get("/v1/documents", { query: { parent: this.#id, parts: "include", sort: "oldest", ...range }, signal: this.#view.signal });
  }

  #draw() {
    this.table.update(this.#parts);
    this.more.update({ hasMore: this.#next !== null, isBusy: this.#isBusy });
  }
}

/** @returns {Column<Api.Document>[]} */
function columns() {
  return [
    { key: "name", label: t("document.part"), name: (part) => part.name, value: (part) => `${part.part} ${part.name}`, cell: (part) => el("span", {}, `${number(part.part ?? 0)}. ${part.name}`) },
    { key: "state", label: t("documents.head_state"), value: (part) => part.state, cell: (part) => stateBadge(part.state) },
    { key: "queue", label: t("documents.head_queue"), value: (part) => part.queue, className: "wide-only" },
    {
      key: "error",
      label: t("document.error"),
      value: (part) => part.error?.split("\n")[0] ?? "",
      cell: (part) => el("span", { class: "part-error" }, part.error?.split("\n")[0] ?? ""),
      update: (node, part) => setText(node, part.error?.split("\n")[0] ?? ""),
    },
  ];
}
