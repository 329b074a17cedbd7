// Where UTF-8 text may be cut: bytes that were cut anywhere, less the parts of characters at either end. What is no
// UTF-8 is left as it is; at most three bytes go. Pure.

const isContinuation = (byte: number | undefined) => byte !== undefined && byte >= 0x80 && byte < 0xc0;

/** Without the first bytes of a character whose rest was cut off, or has not come yet. */
export function trimEnd(bytes: Buffer): Buffer {
  let lead = bytes.length - 1;
  while (lead > bytes.length - 4 && isContinuation(bytes[lead])) {
    lead -= 1;
  }
  return lead >= 0 && lead + lengthOf(bytes[lead]!) > bytes.length ? bytes.subarray(0, lead) : bytes;
}

/** Without the last bytes of a character that began before. */
export function trimStart(bytes: Buffer): Buffer {
  let start = 0;
  while (start < 3 && isContinuation(bytes[start])) {
    start += 1;
  }
  return isContinuation(bytes[start]) ? bytes : bytes.subarray(start);
}

/** Of the character that begins with this byte; 1 where none does. */
function lengthOf(lead: number): number {
  if (lead < 0xc2 || lead > 0xf4) {
    return 1;
  }
  return lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
}
