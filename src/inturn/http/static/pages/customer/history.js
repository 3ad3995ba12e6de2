// A customer's recent history, from its newest documents and, for operators, from the audit log.

import { get } from "../../api.js";
import { seesAll } from "../../session.js";

/** @typedef {{ key: string, kind: string, at: number, state: string, documents: string[], name: string | null, operator: string | null, why: string, isMore: boolean }} Entry */

const FETCH_LIMIT = 50;
const MAX_ENTRIES = 15;
/** @type {Record<string, string>} */
const STATE_BY_KIND = { submitted: "waiting", started: "running", done: "done", failed: "failed", cancelled: "cancelled", expired: "expired", retried: "waiting", expedited: "waiting", expedite_undone: "waiting" };
const PROCESSED_STATES = ["running", "done", "failed", "cancelled", "expired"];
/** Audit entries that the documents' own states already show. */
const SKIPPED_AUDIT_KINDS = new Set(["cancelled"]);

/**
 * Fetch the newest documents, the newest processed ones, and the audit log.
 * @param {string} customer
 * @param {AbortSignal} signal
 */
export async function fetchHistory(customer, signal) {
  const documents = (/** @type {Record<string, unknown>} */ more) => get("/v1/documents", { query: { customer, limit: FETCH_LIMIT, ...more }, signal });
  const byHand = seesAll() ? get("/v1/audit", { query: { customer, limit: FETCH_LIMIT }, signal }) : Promise.resolve({ events: /** @type {Api.AuditEvent[]} */ ([]) });
  const [newest, moved, audit] = await Promise.all([documents({}), documents({ state: PROCESSED_STATES }), byHand]);
  return {
    documents: [...new Map([...newest.documents, ...moved.documents].map((row) => [row.id, row])).values()],
    oldest: newest.next === null ? null : (newest.documents.at(-1)?.submitted_at ?? null),
    byHand: audit.events.filter((event) => event.customer === customer && !SKIPPED_AUDIT_KINDS.has(event.kind)),
  };
}

/**
 * Merge into entries, newest first; documents of the same kind and time share an entry. `isMore`: the fetch limit may have cut it.
 * @param {Awaited<ReturnType<typeof fetchHistory>>} fetched
 */
export function mergeHistory({ documents, oldest, byHand }) {
  /** @type {Map<string, Entry>} */
  const entries = new Map();
  const add = (/** @type {string} */ kind, /** @type {number} */ at, /** @type {string} */ id, /** @type {string} */ name) => {
    const key = `${kind} ${at}`;
    const entry = entries.get(key) ?? { key, kind, at, state: STATE_BY_KIND[kind], documents: [], name, operator: null, why: "", isMore: kind === "submitted" && at === oldest };
    entry.documents.push(id);
    entries.set(key, entry);
  };
  for (const row of documents) {
    add("submitted", row.submitted_at, row.id, row.name);
    if (row.started_at !== null) add("started", row.started_at, row.id, row.name);
    if (row.finished_at !== null && row.state in STATE_BY_KIND) add(row.state, row.finished_at, row.id, row.name);
  }
  for (const { number, kind, at, documents: ids, operator, why } of byHand) {
    entries.set(`hand ${number}`, { key: `hand ${number}`, kind, at, state: STATE_BY_KIND[kind] ?? "delayed", documents: ids, name: null, operator, why, isMore: false });
  }
  return [...entries.values()].sort((one, other) => other.at - one.at).slice(0, MAX_ENTRIES);
}
