// One EventSource for the whole page. It reconnects by itself, resumes after the last event on whichever server answers,
// and closes while the tab is hidden.

const EVENT_KINDS = [
  "submitted",
  "started",
  "finished",
  "delayed",
  "failed",
  "handed_back",
  "step_done",
  "split",
  "part_added",
  "parts_ended",
  "lease_lost",
  "due",
  "expired",
  "cancelled",
  "retried",
  "expedited",
  "expedite_undone",
  "purged",
  "customer_changed",
  "queue_changed",
  "queue_paused",
  "queue_resumed",
  "policy_set",
  "repaired",
  "key_made",
  "key_ended",
  "worker_paused",
  "worker_resumed",
  "failures_acknowledged",
];
const MIN_RECONNECT_DELAY_MS = 1_000;
const MAX_RECONNECT_DELAY_MS = 30_000;
const HIDDEN_TIMEOUT_MS = 5_000;
const MAX_BUFFERED_EVENTS = 5_000;

export const LIVE = "live";
const RECONNECTING = "reconnecting";
const OFFLINE = "offline";
const SUSPENDED = "suspended";

/**
 * An event of the queue. An operator hears all of it, a customer only what is in `documents`; "reset" has a kind only.
 * @typedef {{ kind: string, number?: number, at?: number, customer?: string | null, documents?: string[], operator?: string, detail?: any }} QueueEvent
 *
 * @typedef {{ kinds: Set<string> | null, call: (events: QueueEvent[]) => unknown, wait: number, events: QueueEvent[], timer: number }} Listener
 */

/** @type {EventSource | null} */
let source = null;
/** @type {string | null} */
let lastEventId = null;
let reconnectDelay = MIN_RECONNECT_DELAY_MS;
let reconnectTimer = 0;
let hiddenTimer = 0;
let status = RECONNECTING;
let isEnabled = false;
/** @type {Set<(status: string) => unknown>} */
const statusListeners = new Set();
/** @type {Set<() => unknown>} */
const connectionListeners = new Set();
/** @type {Set<Listener>} */
const listeners = new Set();

export function start() {
  if (isEnabled) return;
  isEnabled = true;
  document.addEventListener("visibilitychange", onVisibilityChange);
  window.addEventListener("online", reconnectNow);
  window.addEventListener("offline", () => setStatus(OFFLINE));
  connect();
}

export function stop() {
  isEnabled = false;
  clearTimeout(reconnectTimer);
  closeSource();
}

/**
 * Call with the status now and after each change. Returns a function that unsubscribes.
 * @param {(status: string) => unknown} call
 * @returns {() => void}
 */
export function onStatusChange(call) {
  statusListeners.add(call);
  call(status);
  return () => statusListeners.delete(call);
}

/**
 * Call after each reconnect and each failure: either may mean that the session ended.
 * @param {() => unknown} call
 */
export function onConnectionChange(call) {
  connectionListeners.add(call);
}

/**
 * Call with lists of events ({kind, at, customer, documents, …}) of these kinds, at most once every `wait` ms. A list
 * with {kind: "reset"} means that events were missed: load everything again. Returns a function that unsubscribes.
 * @param {"*" | readonly string[]} kinds
 * @param {(events: QueueEvent[]) => unknown} call
 * @param {number} wait
 * @returns {() => void}
 */
export function listen(kinds, call, wait = 500) {
  /** @type {Listener} */
  const listener = { kinds: kinds === "*" ? null : new Set(kinds), call, wait, events: [], timer: 0 };
  listeners.add(listener);
  return () => {
    clearTimeout(listener.timer);
    listeners.delete(listener);
  };
}

function connect() {
  clearTimeout(reconnectTimer);
  if (!isEnabled || source !== null) return;
  source = new EventSource(lastEventId === null ? "/v1/events" : `/v1/events?after=${lastEventId}`);
  source.addEventListener("open", () => {
    reconnectDelay = MIN_RECONNECT_DELAY_MS;
    if (status !== LIVE && lastEventId === null) enqueue({ kind: "reset" }); // covers events from before the stream began
    const isBack = status !== LIVE;
    setStatus(LIVE);
    if (isBack && lastEventId !== null) for (const call of connectionListeners) call();
  });
  source.addEventListener("error", scheduleReconnect);
  source.addEventListener("reset", (event) => onMessage("reset", event));
  for (const kind of EVENT_KINDS) source.addEventListener(kind, (event) => onMessage(kind, event));
}

/**
 * @param {string} kind
 * @param {MessageEvent<string>} event
 */
function onMessage(kind, event) {
  if (event.lastEventId) lastEventId = event.lastEventId;
  if (kind === "reset") enqueue({ kind });
  else if (hasListenerFor(kind)) enqueue(JSON.parse(event.data));
}

/** @param {string} kind */
function hasListenerFor(kind) {
  for (const listener of listeners) if (listener.kinds === null || listener.kinds.has(kind)) return true;
  return false;
}

/** @param {QueueEvent} event */
function enqueue(event) {
  for (const listener of listeners) {
    if (event.kind !== "reset" && listener.kinds !== null && !listener.kinds.has(event.kind)) continue;
    if (listener.events.length >= MAX_BUFFERED_EVENTS) listener.events = [{ kind: "reset" }];
    listener.events.push(event);
    if (listener.timer === 0) listener.timer = setTimeout(flush, listener.wait, listener);
  }
}

/** @param {Listener} listener */
function flush(listener) {
  listener.timer = 0;
  const events = listener.events;
  listener.events = [];
  listener.call(events);
}

function scheduleReconnect() {
  closeSource();
  if (!isEnabled) return;
  for (const call of connectionListeners) call();
  setStatus(navigator.onLine ? RECONNECTING : OFFLINE);
  reconnectTimer = setTimeout(connect, reconnectDelay * (0.75 + Math.random() / 2)); // jitter, so that pages do not reconnect all at once
  reconnectDelay = Math.min(MAX_RECONNECT_DELAY_MS, reconnectDelay * 2);
}

function reconnectNow() {
  reconnectDelay = MIN_RECONNECT_DELAY_MS;
  if (isEnabled && source === null && !document.hidden) {
    setStatus(RECONNECTING);
    connect();
  }
}

function onVisibilityChange() {
  clearTimeout(hiddenTimer);
  if (!isEnabled) return;
  if (document.hidden) {
    hiddenTimer = setTimeout(() => {
      clearTimeout(reconnectTimer);
      closeSource();
      setStatus(SUSPENDED);
    }, HIDDEN_TIMEOUT_MS);
  } else reconnectNow();
}

function closeSource() {
  source?.close();
  source = null;
}

/** @param {string} wantedStatus */
function setStatus(wantedStatus) {
  if (wantedStatus === status) return;
  status = wantedStatus;
  for (const call of statusListeners) call(status);
}
