// Preferences in localStorage. Where storage is forbidden, nothing is stored and nothing fails.

export function getPreference(name) {
  try {
    return localStorage.getItem(`inturn.${name}`);
  } catch {
    return null;
  }
}

export function setPreference(name, value) {
  try {
    if (value === null) localStorage.removeItem(`inturn.${name}`);
    else localStorage.setItem(`inturn.${name}`, value);
  } catch {
    // Storage is forbidden.
  }
}
