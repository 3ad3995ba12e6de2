// People who take documents by hand stand where workers do, under a name of their own.

/** What the name of a worker begins with if it is a person. */
const PREFIX = "person:";

/**
 * The name of the person who has a document; null if a worker has it.
 * @param {string | null} worker
 */
export function personOf(worker) {
  return worker !== null && worker.startsWith(PREFIX) ? worker.slice(PREFIX.length) : null;
}
