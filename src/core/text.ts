// Bounded text: what comes from outside and is only told is cut, never refused.

/** At most `bytesMax` bytes of UTF-8, well-formed; a text that was cut ends with an ellipsis. */
export function cutText(text: string, bytesMax: number): string {
  const whole = text.toWellFormed();
  const bytes = Buffer.from(whole);
  if (bytes.length <= bytesMax) {
    return whole;
  }
  // The ellipsis has three bytes. A character that the cut goes through is left out whole.
  const decoder = new TextDecoder();
  return `${decoder.decode(bytes.subarray(0, bytesMax - 3), { stream: true })}…`;
}
