// Requests to the API. Errors become ApiError with a translated message; compare its code.

import { currentLanguage, hasText, t } from "./i18n.js";

let token = null;
let onSignedOut = () => {};

/** A problem (RFC 9457), or no answer at all: code "offline". */
export class ApiError extends Error {
  constructor(code, status, detail, retryAfter = null) {
    super(told(code, detail));
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.retryAfter = retryAfter;
  }
}

function told(code, detail) {
  const key = `errors.${code}`;
  if (!hasText("errors.unexpected")) return detail ?? code; // the texts themselves could not be loaded
  const text = hasText(key) ? t(key) : t("errors.unexpected");
  // What is wrong with something given is said by the server, by name; in English, as its codes and logs are.
  return detail && (code === "invalid_input" || !hasText(key)) ? `${text} ${detail}` : text;
}

/** The token that must come with whatever changes anything; what to do when the session is over. */
export function useSession(csrf, signedOut) {
  token = csrf;
  onSignedOut = signedOut;
}

/** The session is over, by what was just done: not to be found out by the next request. */
export function sessionIsOver() {
  onSignedOut();
}

export function get(path, { query, signal } = {}) {
  return asked("GET", path, { query, signal });
}

export function send(method, path, { body, query, signal } = {}) {
  return asked(method, path, { body, query, signal });
}

/** The path with a query; empty values are left out, lists are repeated. */
export function address(path, query = {}) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value].flat()) if (each !== null && each !== undefined && each !== "") found.append(name, each);
  }
  const text = found.toString();
  return text ? `${path}?${text}` : path;
}

async function asked(method, path, { body, query, signal }) {
  const answer = await fetched(method, path, { body, query, signal });
  return answer.status === 204 ? null : answer.json();
}

async function fetched(method, path, { body, query, signal }) {
  const headers = { Accept: "application/json", "Accept-Language": currentLanguage() };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (token !== null && method !== "GET") headers["X-CSRF-Token"] = token;
  const json = body === undefined ? undefined : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(address(path, query), { method, headers, body: json, signal, credentials: "same-origin" });
  } catch (wrong) {
    if (wrong.name === "AbortError") throw wrong;
    throw new ApiError("offline", 0, null);
  }
  if (!answer.ok) throw await problem(answer);
  return answer;
}

async function problem(answer) {
  let told = {};
  try {
    told = await answer.json();
  } catch {
    // A proxy's own page: the status must do.
  }
  if (answer.status === 401) onSignedOut();
  const code = told.code ?? (answer.status === 502 || answer.status === 504 ? "offline" : "unexpected");
  return new ApiError(code, answer.status, told.detail ?? null, Number(answer.headers.get("Retry-After")) || null);
}

/** Objects of an answer that has one a line, as they come. */
export async function* lines(method, path, { body, query, signal } = {}) {
  const answer = await fetched(method, path, { body, query, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const found = (rest + (value ?? "")).split("\n");
    rest = done ? "" : found.pop();
    for (const each of found) if (each.trim()) yield JSON.parse(each);
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
    if (token !== null) request.setRequestHeader("X-CSRF-Token", token);
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) onProgress(event.loaded / event.total);
    });
    request.addEventListener("load", async () => {
      const answer = new Response(request.responseText, { status: request.status });
      if (answer.ok) resolve(await answer.json());
      else reject(await problem(answer));
    });
    request.addEventListener("error", () => reject(new ApiError("offline", 0, null)));
    request.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
