// What was done by hand, by whom and why; new entries come in at the top while it is open.

import { get } from "../api.js";
import { debounced, el, fill, keyed } from "../dom.js";
import { durationInWords, number, time } from "../format.js";
import { t } from "../i18n.js";
import { to } from "../routes.js";
import { select, text } from "../components/fields.js";
import { more } from "../components/paging.js";
import { empty } from "../components/placeholders.js";

const KINDS = ["cancelled", "retried", "expedited", "purged", "customer_changed", "queue_paused", "queue_resumed", "policy_set", "repaired", "key_made", "key_ended"];
const FILTERS = ["kind", "operator", "customer"];
const A_PAGE = 50;
const SHOWN_DOCUMENTS = 3;

export async function mount(view) {
  const log = new Log(view);
  const filters = new Filters(view);
  await log.load();
  view.listen(KINDS, () => log.refresh(), 1_000);
  fill(view.root, el("p", { class: "muted audit-intro" }, t("audit.intro")), filters.node, el("section", { class: "panel panel-flush" }, log.node));
  return {
    update() {
      filters.update();
      log.load();
    },
  };
}

/** Kind, who and customer; they live in the address. */
class Filters {
  constructor(view) {
    this.view = view;
    const kinds = [["", t("audit.any_kind")], ...KINDS.map((each) => [each, t(`audit.kind_${each}`)])];
    this.kind = select({ label: t("audit.filter_kind"), options: kinds, value: view.query.get("kind") ?? "" });
    this.kind.input.addEventListener("change", () => view.setQuery({ kind: this.kind.input.value }));
    this.operator = this.#typed("operator", t("audit.filter_operator"));
    this.customer = this.#typed("customer", t("audit.filter_customer"));
    this.node = el("form", { class: "audit-filters", role: "search", on: { submit: (event) => event.preventDefault() } }, FILTERS.map((each) => this[each].node));
  }

  #typed(name, label) {
    const field = text({ label, type: "search", value: this.view.query.get(name) ?? "", maxlength: 255 });
    field.input.addEventListener("input", debounced(() => this.view.setQuery({ [name]: field.input.value.trim() })));
    return field;
  }

  /** After Back: what is typed stays if it means the same. */
  update() {
    for (const each of FILTERS) {
      const wanted = this.view.query.get(each) ?? "";
      if (this[each].input.value.trim() !== wanted) this[each].input.value = wanted;
    }
  }
}

class Log {
  #events = [];
  #next = null;
  #ticket = 0;

  constructor(view) {
    this.view = view;
    this.list = el("ul", { class: "audit-list" });
    this.none = el("div");
    this.more = more(() => this.load({ isMore: true }));
    this.node = el("div", { role: "region", "aria-live": "off", "aria-label": t("audit.title") }, this.list, this.none, this.more.node);
  }

  #query(before = null) {
    const given = Object.fromEntries(FILTERS.map((each) => [each, this.view.query.get(each)]));
    return { ...given, limit: A_PAGE, before };
  }

  async load({ isMore = false } = {}) {
    this.#ticket += 1;
    const mine = this.#ticket;
    this.more.update({ hasMore: this.#next !== null, isBusy: true });
    const found = await get("/v1/audit", { query: this.#query(isMore ? this.#next : null), signal: this.view.signal });
    if (mine !== this.#ticket) return; // the filters have changed meanwhile
    this.#events = isMore ? [...this.#events, ...found.events] : found.events;
    this.#next = found.next;
    this.#draw();
  }

  /** Put what is new before what is shown; what was loaded further down stays. */
  async refresh() {
    const mine = this.#ticket;
    try {
      const found = await get("/v1/audit", { query: this.#query(), signal: this.view.signal });
      if (mine !== this.#ticket) return;
      const newest = this.#events[0]?.number ?? 0;
      const fresh = found.events.filter((each) => each.number > newest);
      if (fresh.length === found.events.length && found.next !== null) this.#next = found.next; // more than a page is new
      this.#events = fresh.length === found.events.length ? found.events : [...fresh, ...this.#events];
      this.#draw();
    } catch (wrong) {
      if (wrong.code === undefined && wrong.name !== "AbortError") throw wrong; // the live mark tells of the rest
    }
  }

  #draw() {
    keyed(this.list, this.#events, (each) => each.number, entry, () => {});
    const isFiltered = FILTERS.some((each) => this.view.query.get(each));
    const none = isFiltered ? empty(t("audit.no_match"), t("audit.no_match_hint")) : empty(t("audit.none"), t("audit.none_hint"));
    fill(this.none, this.#events.length === 0 && none);
    this.more.update({ hasMore: this.#next !== null });
  }
}

function entry(event) {
  const at = el("time", { class: "muted audit-at", datetime: new Date(event.at / 1_000).toISOString() }, time(event.at));
  const about = [event.customer && el("a", { href: to("customer", { name: event.customer }) }, event.customer), documents(event)];
  return el(
    "li",
    { class: "audit-entry" },
    at,
    el("p", { class: "audit-who" }, event.operator || "–"),
    el("div", { class: "audit-what" }, el("p", { class: "audit-did" }, done(event)), about.some(Boolean) && el("p", { class: "audit-about" }, about), event.why && el("p", { class: "muted" }, t("audit.because", { why: event.why }))),
  );
}

/** What was done, as a sentence of its own. */
function done({ kind, documents: ids, detail }) {
  const values = { ...detail, n: kind === "purged" ? (detail.documents ?? 0) : ids.length };
  if (detail.scope) values.scope = t(`shell.scope_${detail.scope.replace("-", "_")}`);
  const said = t(`audit.did_${kind}`, values);
  if (kind !== "customer_changed") return said;
  return `${said}: ${Object.entries(detail).map(changed).join(", ")}`;
}

function changed([name, value]) {
  if (value === null || value === false) return t(`audit.change_${name}_none`);
  if (name === "rate") return t("audit.change_rate", { value: value[0], time: durationInWords(value[1]) });
  if (name === "keep") return t("audit.change_keep", { time: durationInWords(value) });
  return t(`audit.change_${name}`, { value: typeof value === "number" ? number(value, 3) : value });
}

function documents({ documents: ids }) {
  const links = ids.slice(0, SHOWN_DOCUMENTS).map((id) => el("a", { class: "mono", href: to("document", { id }) }, id.slice(-12)));
  const rest = ids.length - SHOWN_DOCUMENTS;
  return [links, rest > 0 && el("span", { class: "muted" }, t("audit.more_documents", { n: rest }))];
}
