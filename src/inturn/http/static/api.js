// Requests to the API. Errors become ApiError with a translated message; compare its code.

import { currentLanguage, hasText, t } from "./i18n.js";

let csrfToken = null;
let onSignedOut = () => {};

/** A problem (RFC 9457), or no answer at all: code "offline". */
export class ApiError extends Error {
  constructor(code, status, detail, retryAfter = null) {
    super(errorMessage(code, detail));
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.retryAfter = retryAfter;
  }
}

function errorMessage(code, detail) {
  const key = `errors.${code}`;
  if (!hasText("errors.unexpected")) return detail ?? code; // the texts themselves could not be loaded
  const text = hasText(key) ? t(key) : t("errors.unexpected");
  // What is wrong with something given is said by the server, by name; in English, as its codes and logs are.
  return detail && (code === "invalid_input" || !hasText(key)) ? `${text} ${detail}` : text;
}

/** The token that must come with whatever changes anything; what to do when the session is over. */
export function configureSession(csrf, signedOut) {
  csrfToken = csrf;
  onSignedOut = signedOut;
}

/** The session is over, by what was just done: not to be found out by the next request. */
export function notifySignedOut() {
  onSignedOut();
}

export function get(path, { query, signal } = {}) {
  return requestJson("GET", path, { query, signal });
}

export function send(method, path, { body, query, signal } = {}) {
  return requestJson(method, path, { body, query, signal });
}

/** The path with a query; empty values are left out, lists are repeated. */
function buildUrl(path, query = {}) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const item of [value].flat()) if (item !== null && item !== undefined && item !== "") params.append(name, item);
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

async function requestJson(method, path, { body, query, signal }) {
  const answer = await fetchOrThrow(method, path, { body, query, signal });
  return answer.status === 204 ? null : answer.json();
}

async function fetchOrThrow(method, path, { body, query, signal }) {
  const headers = { Accept: "application/json", "Accept-Language": currentLanguage() };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (csrfToken !== null && method !== "GET") headers["X-CSRF-Token"] = csrfToken;
  const json = body === undefined ? undefined : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(buildUrl(path, query), { method, headers, body: json, signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("offline", 0, null);
  }
  if (!answer.ok) throw await toApiError(answer);
  return answer;
}

async function toApiError(answer) {
  let problem = {};
  try {
    problem = await answer.json();
  } catch {
    // A proxy's own page: the status must do.
  }
  if (answer.status === 401) onSignedOut();
  const code = problem.code ?? (answer.status === 502 || answer.status === 504 ? "offline" : "unexpected");
  return new ApiError(code, answer.status, problem.detail ?? null, Number(answer.headers.get("Retry-After")) || null);
}

/** Objects of an answer that has one a line, as they come. */
export async function* streamJsonLines(method, path, { body, query, signal } = {}) {
  const answer = await fetchOrThrow(method, path, { body, query, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : lines.pop();
    for (const line of lines) if (line.trim()) yield JSON.parse(line);
    if (done) return;
  }
}

/** Send a form with files; onProgress hears the part that is on its way, from 0 to 1. */
export function upload(path, form, { onProgress = () => {}, signal, headers = {} } = {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", path);
    request.setRequestHeader("Accept", "application/json");
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    if (csrfToken !== null) request.setRequestHeader("X-CSRF-Token", csrfToken);
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) onProgress(event.loaded / event.total);
    });
    request.addEventListener("load", async () => {
      const answer = new Response(request.responseText, { status: request.status });
      if (answer.ok) resolve(await answer.json());
      else reject(await toApiError(answer));
    });
    request.addEventListener("error", () => reject(new ApiError("offline", 0, null)));
    request.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
