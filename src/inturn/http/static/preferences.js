// What this browser remembers. Storage can be forbidden: then nothing is remembered, and nothing breaks.

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
    // Forbidden.
  }
}
