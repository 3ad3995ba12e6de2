// The session: the signed-in user, and what the user may do.

import { configureSession, get, send } from "./api.js";

/**
 * The signed-in user. With `acts` it may submit, cancel and retry. With a `customer` it sees only that customer.
 * @typedef {{ name: string, scope: Api.ApiKey["scope"], customer: string | null, acts: boolean, sees_all: boolean, csrf: string | null, key: string | null }} User
 * @typedef {{ who: User | null, build: string, languages: string[], version: string | null, needs_keys: boolean, queue: string | null }} Session
 */

/** @type {Session} */
let session;

/**
 * Load the session. signedOut() is called when a later request finds that it has ended.
 * @param {() => void} signedOut
 * @returns {Promise<Session>}
 */
export async function loadSession(signedOut) {
  session = await get("/session");
  configureSession(session.who?.csrf ?? null, signedOut);
  return session;
}

/** @param {string} key */
export async function signIn(key) {
  session = await send("POST", "/session", { body: { key } });
  return session;
}

export async function signOut() {
  await send("DELETE", "/session");
}

export function currentSession() {
  return session;
}

/** {name, scope, customer, acts, sees_all}, or null before sign-in. */
export function currentUser() {
  return session?.who ?? null;
}

/** Whether the user may submit, cancel and retry. Without this right such buttons are not shown. */
export function mayAct() {
  return currentUser()?.acts ?? false;
}

/** Whether the user is an operator, who may change anything. */
export function mayOperate() {
  return currentUser()?.scope === "operator";
}

export function seesAll() {
  return currentUser()?.sees_all ?? false;
}
