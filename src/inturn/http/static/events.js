// One stream of events for the whole page. It comes back by itself, goes on behind the last event heard, whichever
// server answers, and rests while nobody looks.

const KINDS = [
  "submitted",
  "started",
  "finished",
  "delayed",
  "failed",
  "handed_back",
  "lease_lost",
  "due",
  "expired",
  "cancelled",
  "retried",
  "expedited",
  "purged",
  "customer_changed",
  "queue_paused",
  "queue_resumed",
  "policy_set",
  "repaired",
  "key_made",
  "key_ended",
];
const FIRST_REST = 1_000;
const LONGEST_REST = 30_000;
const HIDDEN_FOR = 5_000;
const MOST_KEPT = 5_000;

export const LIVE = "live";
export const RECONNECTING = "reconnecting";
export const OFFLINE = "offline";
export const RESTING = "resting";

let source = null;
let last = null;
let rest = FIRST_REST;
let timer = 0;
let hiding = 0;
let status = RECONNECTING;
let isOn = false;
const onStatus = new Set();
const onConnection = new Set();
const listeners = new Set();

export function start() {
  if (isOn) return;
  isOn = true;
  document.addEventListener("visibilitychange", look);
  window.addEventListener("online", comeBack);
  window.addEventListener("offline", () => change(OFFLINE));
  connect();
}

export function stop() {
  isOn = false;
  clearTimeout(timer);
  close();
}

/** Call with the status now and whenever it changes; returns what ends that. */
export function watchStatus(call) {
  onStatus.add(call);
  call(status);
  return () => onStatus.delete(call);
}

/** Call whenever the stream has come back or could not: each time somebody may have been signed out. */
export function watchConnection(call) {
  onConnection.add(call);
}

/**
 * Call with lists of events ({kind, at, customer, documents, …}) of these kinds, at most once every `wait` ms. A list
 * that holds {kind: "reset"} means: too much was missed, or we were away; look at everything anew.
 */
export function listen(kinds, call, wait = 500) {
  const listener = { kinds: kinds === "*" ? null : new Set(kinds), call, wait, events: [], timer: 0 };
  listeners.add(listener);
  return () => {
    clearTimeout(listener.timer);
    listeners.delete(listener);
  };
}

function connect() {
  clearTimeout(timer);
  if (!isOn || source !== null) return;
  source = new EventSource(last === null ? "/v1/events" : `/v1/events?after=${last}`);
  source.addEventListener("open", () => {
    rest = FIRST_REST;
    if (status !== LIVE && last === null) tell({ kind: "reset" }); // what happened before the stream began
    const isBack = status !== LIVE;
    change(LIVE);
    if (isBack && last !== null) for (const call of onConnection) call();
  });
  source.addEventListener("error", again);
  source.addEventListener("reset", (event) => hear("reset", event));
  for (const kind of KINDS) source.addEventListener(kind, (event) => hear(kind, event));
}

function hear(kind, event) {
  if (event.lastEventId) last = event.lastEventId;
  if (kind === "reset") tell({ kind });
  else if (wanted(kind)) tell(JSON.parse(event.data));
}

function wanted(kind) {
  for (const each of listeners) if (each.kinds === null || each.kinds.has(kind)) return true;
  return false;
}

function tell(event) {
  for (const each of listeners) {
    if (event.kind !== "reset" && each.kinds !== null && !each.kinds.has(event.kind)) continue;
    if (each.events.length >= MOST_KEPT) each.events = [{ kind: "reset" }];
    each.events.push(event);
    if (each.timer === 0) each.timer = setTimeout(deliver, each.wait, each);
  }
}

function deliver(listener) {
  listener.timer = 0;
  const events = listener.events;
  listener.events = [];
  listener.call(events);
}

function again() {
  close();
  if (!isOn) return;
  for (const call of onConnection) call();
  change(navigator.onLine ? RECONNECTING : OFFLINE);
  timer = setTimeout(connect, rest * (0.75 + Math.random() / 2)); // not all pages at once
  rest = Math.min(LONGEST_REST, rest * 2);
}

function comeBack() {
  rest = FIRST_REST;
  if (isOn && source === null && !document.hidden) {
    change(RECONNECTING);
    connect();
  }
}

function look() {
  clearTimeout(hiding);
  if (!isOn) return;
  if (document.hidden) {
    hiding = setTimeout(() => {
      clearTimeout(timer);
      close();
      change(RESTING);
    }, HIDDEN_FOR);
  } else comeBack();
}

function close() {
  source?.close();
  source = null;
}

function change(wantedStatus) {
  if (wantedStatus === status) return;
  status = wantedStatus;
  for (const call of onStatus) call(status);
}
