// What happened to a customer lately, from its newest documents and, for operators, what was done by hand.

import { get } from "../../api.js";
import { seesAll } from "../../session.js";

const READ = 50;
const SHOWN = 15;
const STATES = { submitted: "waiting", started: "running", done: "done", failed: "failed", cancelled: "cancelled", expired: "expired", retried: "waiting", expedited: "waiting" };
const MOVED = ["running", "done", "failed", "cancelled", "expired"];
/** Told by the documents themselves, by hand or not. */
const TOLD = new Set(["cancelled"]);

/** The newest documents, those that moved last, and what operators did. */
export async function latest(customer, signal) {
  const documents = (more) => get("/v1/documents", { query: { customer, limit: READ, ...more }, signal });
  const byHand = seesAll() ? get("/v1/audit", { query: { customer, limit: READ }, signal }) : Promise.resolve({ events: [] });
  const [newest, moved, audit] = await Promise.all([documents({}), documents({ state: MOVED }), byHand]);
  return {
    documents: [...new Map([...newest.documents, ...moved.documents].map((each) => [each.id, each])).values()],
    oldest: newest.next === null ? null : newest.documents.at(-1).submitted_at,
    byHand: audit.events.filter((each) => each.customer === customer && !TOLD.has(each.kind)),
  };
}

/** Moments, newest first; documents of one moment are one line. `isMore`: there may be others that were not read. */
export function history({ documents, oldest, byHand }) {
  const found = new Map();
  const add = (kind, at, id, name) => {
    const key = `${kind} ${at}`;
    const known = found.get(key) ?? { key, kind, at, state: STATES[kind], documents: [], name, operator: null, why: "", isMore: kind === "submitted" && at === oldest };
    known.documents.push(id);
    found.set(key, known);
  };
  for (const each of documents) {
    add("submitted", each.submitted_at, each.id, each.name);
    if (each.started_at !== null) add("started", each.started_at, each.id, each.name);
    if (each.finished_at !== null && each.state in STATES) add(each.state, each.finished_at, each.id, each.name);
  }
  for (const { number, kind, at, documents: ids, operator, why } of byHand) {
    found.set(`hand ${number}`, { key: `hand ${number}`, kind, at, state: STATES[kind] ?? "delayed", documents: ids, name: null, operator, why, isMore: false });
  }
  return [...found.values()].sort((one, other) => other.at - one.at).slice(0, SHOWN);
}
