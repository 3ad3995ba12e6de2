// Preferences in localStorage. Where storage is forbidden, nothing is stored and nothing fails.

/** @param {string} name */
export function getPreference(name) {
  try {
    return localStorage.getItem(`inturn.${name}`);
  } catch {
    return null;
  }
}

/**
 * @param {string} name
 * @param {string | null} value
 */
export function setPreference(name, value) {
  try {
    if (value === null) localStorage.removeItem(`inturn.${name}`);
    else localStorage.setItem(`inturn.${name}`, value);
  } catch {
    // Storage is forbidden.
  }
}
