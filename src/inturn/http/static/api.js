// Send requests to the API. A failed request throws ApiError with a translated message; callers compare its code.

import { currentLanguage, hasText, t } from "./i18n.js";

/**
 * @typedef {{ query?: Record<string, unknown>, signal?: AbortSignal }} GetOptions
 * @typedef {GetOptions & { body?: unknown }} SendOptions
 */

/** @type {string | null} */
let csrfToken = null;
let onSignedOut = () => {};

/**
 * Whether a request was given up because the page was left.
 * @param {unknown} error
 */
export function isAbort(error) {
  return error instanceof Error && error.name === "AbortError";
}

/**
 * Ignore a failed request, which the status indicator shows, and one that was given up. Others are bugs: throw them again.
 * @param {unknown} error
 */
export function ignoreRequestError(error) {
  if (!(error instanceof ApiError) && !isAbort(error)) throw error;
}

/** An RFC 9457 problem of the server; code "offline" if the server did not answer. */
export class ApiError extends Error {
  /**
   * @param {string} code
   * @param {number} status
   * @param {string | null} detail
   * @param {number | null} retryAfter seconds
   */
  constructor(code, status, detail, retryAfter = null) {
    super(errorMessage(code, detail));
    this.code = code;
    this.status = status;
    this.detail = detail;
    this.retryAfter = retryAfter;
  }
}

/**
 * @param {string} code
 * @param {string | null} detail
 */
function errorMessage(code, detail) {
  const key = `errors.${code}`;
  if (!hasText("errors.unexpected")) return detail ?? code; // the texts could not be loaded
  const text = hasText(key) ? t(key) : t("errors.unexpected");
  // For invalid input the server's detail names the field. It is English, like codes and logs.
  return detail && (code === "invalid_input" || !hasText(key)) ? `${text} ${detail}` : text;
}

/**
 * Set the CSRF token of requests that change something, and the handler of an ended session.
 * @param {string | null} csrf
 * @param {() => void} signedOut
 */
export function configureSession(csrf, signedOut) {
  csrfToken = csrf;
  onSignedOut = signedOut;
}

/** Run the handler of an ended session at once, before a request fails with 401. */
export function notifySignedOut() {
  onSignedOut();
}

/**
 * @template {string} P
 * @param {P} path
 * @param {GetOptions} options
 * @returns {Promise<Api.Response<"GET", P>>}
 */
export function get(path, { query, signal } = {}) {
  return requestJson("GET", path, { query, signal });
}

/**
 * @template {string} M
 * @template {string} P
 * @param {M} method
 * @param {P} path
 * @param {SendOptions} options
 * @returns {Promise<Api.Response<M, P>>}
 */
export function send(method, path, { body, query, signal } = {}) {
  return requestJson(method, path, { body, query, signal });
}

/**
 * Append a query to a path. Empty values are left out, lists become repeated parameters.
 * @param {string} path
 * @param {Record<string, unknown>} query
 */
function buildUrl(path, query = {}) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const item of [value].flat()) if (item !== null && item !== undefined && item !== "") params.append(name, String(item));
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {SendOptions} options
 * @returns {Promise<any>}
 */
async function requestJson(method, path, { body, query, signal }) {
  const answer = await fetchOrThrow(method, path, { body, query, signal });
  return answer.status === 204 ? null : answer.json();
}

/**
 * @param {string} method
 * @param {string} path
 * @param {SendOptions} options
 */
async function fetchOrThrow(method, path, { body, query, signal }) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", "Accept-Language": currentLanguage() };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (csrfToken !== null && method !== "GET") headers["X-CSRF-Token"] = csrfToken;
  const json = body === undefined ? undefined : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(buildUrl(path, query), { method, headers, body: json, signal, credentials: "same-origin" });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new ApiError("offline", 0, null);
  }
  if (!answer.ok) throw await toApiError(answer);
  return answer;
}

/** @param {Response} answer */
async function toApiError(answer) {
  /** @type {Partial<Api.Problem>} */
  let problem = {};
  try {
    problem = await answer.json();
  } catch {
    // The body is not JSON, such as a proxy's error page. The status decides.
  }
  if (answer.status === 401) onSignedOut();
  const code = problem.code ?? (answer.status === 502 || answer.status === 504 ? "offline" : "unexpected");
  return new ApiError(code, answer.status, problem.detail ?? null, Number(answer.headers.get("Retry-After")) || null);
}

/**
 * Read the first bytes of a file, at most `most`. Resolves with {data: Uint8Array, isWhole}.
 * @param {string} path
 * @param {number} most
 * @param {AbortSignal} [signal]
 */
export async function readStart(path, most, signal) {
  const answer = await fetchOrThrow("GET", path, { signal });
  if (answer.body === null) return { data: new Uint8Array(), isWhole: true };
  const reader = answer.body.getReader();
  const chunks = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    length += value.length;
    if (length > most) {
      await reader.cancel();
      break;
    }
  }
  const data = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    data.set(chunk, at);
    at += chunk.length;
  }
  return { data: data.subarray(0, most), isWhole: length <= most };
}

/**
 * Yield the objects of a JSON Lines response as they arrive.
 * @param {string} method
 * @param {string} path
 * @param {SendOptions} options
 * @returns {AsyncGenerator<any>}
 */
export async function* streamJsonLines(method, path, { body, query, signal } = {}) {
  const answer = await fetchOrThrow(method, path, { body, query, signal });
  if (answer.body === null) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value ?? "")).split("\n");
    rest = done ? "" : (lines.pop() ?? "");
    for (const line of lines) if (line.trim()) yield JSON.parse(line);
    if (done) return;
  }
}

/**
 * Send a form with files. onProgress is called with the fraction sent, from 0 to 1.
 * @param {string} path
 * @param {FormData} form
 * @param {{ onProgress?: (part: number) => void, signal?: AbortSignal, headers?: Record<string, string> }} options
 * @returns {Promise<Api.Accepted>}
 */
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
    request.addEventListener("load", () => {
      const answer = new Response(request.responseText, { status: request.status });
      if (answer.ok) answer.json().then(resolve, reject);
      else toApiError(answer).then(reject, reject);
    });
    request.addEventListener("error", () => reject(new ApiError("offline", 0, null)));
    request.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
    signal?.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
