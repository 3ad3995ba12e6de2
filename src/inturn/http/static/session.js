// Whom the page speaks to, and what that person may do.

import { configureSession, get, send } from "./api.js";

let session = null;

/** Ask the server; `signedOut` is called when it says later that the session is over. */
export async function loadSession(signedOut) {
  session = await get("/session");
  configureSession(session.who?.csrf ?? null, signedOut);
  return session;
}

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

/** Null before somebody has signed in: {name, scope, customer, acts, sees_all}. */
export function currentUser() {
  return session?.who ?? null;
}

/** Whether anything may be changed: without this no button that acts is shown. */
export function mayAct() {
  return currentUser()?.acts ?? false;
}

/** Whether this is an operator who may change anything. */
export function mayOperate() {
  return currentUser()?.scope === "operator";
}

export function seesAll() {
  return currentUser()?.sees_all ?? false;
}
