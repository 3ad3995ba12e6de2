// The type and size of an image, from its first bytes. Only types that browsers draw and that hold pixels alone are known.

const JPEG_SIZES = new Set([0xc0, 0xc1, 0xc2, 0xc3, 0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcd, 0xce, 0xcf]);

/**
 * Return {type, pixels: [width, height]}; null for anything else, however it is named.
 * @param {Uint8Array<ArrayBuffer>} data
 */
export function imageSize(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const has = (/** @type {number} */ at, /** @type {string} */ text) => data.length >= at + text.length && [...text].every((letter, index) => data[at + index] === letter.charCodeAt(0));
  if (has(0, "\x89PNG\r\n\x1a\n") && has(12, "IHDR") && data.length >= 24) return describe("png", view.getUint32(16), view.getUint32(20));
  if ((has(0, "GIF87a") || has(0, "GIF89a")) && data.length >= 10) return describe("gif", view.getUint16(6, true), view.getUint16(8, true));
  if (has(0, "\xff\xd8\xff")) return jpegSize(view);
  if (has(0, "RIFF") && has(8, "WEBP") && data.length >= 30) return webpSize(view, has);
  return null;
}

/**
 * @param {string} kind
 * @param {number} width
 * @param {number} height
 */
function describe(kind, width, height) {
  return { type: `image/${kind}`, pixels: [width, height] };
}

/**
 * Follow the segments to the frame header.
 * @param {DataView} view
 */
function jpegSize(view) {
  let at = 2;
  while (at + 9 <= view.byteLength && view.getUint8(at) === 0xff) {
    const marker = view.getUint8(at + 1);
    if (JPEG_SIZES.has(marker)) return describe("jpeg", view.getUint16(at + 7), view.getUint16(at + 5));
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2);
  }
  return null;
}

/**
 * @param {DataView} view
 * @param {(at: number, text: string) => boolean} has
 */
function webpSize(view, has) {
  const uint24 = (/** @type {number} */ at) => view.getUint16(at, true) + (view.getUint8(at + 2) << 16);
  if (has(12, "VP8X")) return describe("webp", uint24(24) + 1, uint24(27) + 1);
  if (has(12, "VP8L")) {
    const bits = view.getUint32(21, true);
    return describe("webp", (bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1);
  }
  if (has(12, "VP8 ")) return describe("webp", view.getUint16(26, true) & 0x3fff, view.getUint16(28, true) & 0x3fff);
  return null;
}
