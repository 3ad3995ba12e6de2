// The session: the signed-in user, and what the user may do.

import { configureSession, get, send } from "./api.js";

let session = null;

/** Load the session. signedOut() is called when a later request finds that it has ended. */
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
