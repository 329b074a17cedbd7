// Times and amounts as people read them: local, in the order of ISO 8601.

function twoDigits(value: number): string {
  return value.toString().padStart(2, '0');
}

/** `12:03:01`, local. */
export function formatClock(wallMs: number): string {
  const time = new Date(wallMs);
  return [time.getHours(), time.getMinutes(), time.getSeconds()].map(twoDigits).join(':');
}

/** `2026-03-01 12:03:01`, local. */
export function formatTime(wallMs: number): string {
  const time = new Date(wallMs);
  const date = [`${time.getFullYear()}`, twoDigits(time.getMonth() + 1), twoDigits(time.getDate())].join('-');
  return `${date} ${formatClock(wallMs)}`;
}

/** `+01:00`: what local time is ahead of UTC at that time. */
export function formatOffset(wallMs: number): string {
  const minutes = -new Date(wallMs).getTimezoneOffset();
  const size = Math.abs(minutes);
  return `${minutes < 0 ? '-' : '+'}${twoDigits(Math.floor(size / 60))}:${twoDigits(size % 60)}`;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `42ms`, `1.4s`, `12s`, `3m05s`, `2h03m`, `4d02h`: two units at most, never rounded up to the next. */
export function formatElapsed(elapsedMs: number): string {
  const ms = Math.max(0, elapsedMs);
  if (ms < SECOND) {
    return `${Math.floor(ms)}ms`;
  }
  if (ms < 10 * SECOND) {
    return `${(Math.floor(ms / 100) / 10).toFixed(1)}s`;
  }
  if (ms < MINUTE) {
    return `${Math.floor(ms / SECOND)}s`;
  }
  if (ms < HOUR) {
    return `${Math.floor(ms / MINUTE)}m${twoDigits(Math.floor((ms % MINUTE) / SECOND))}s`;
  }
  if (ms < DAY) {
    return `${Math.floor(ms / HOUR)}h${twoDigits(Math.floor((ms % HOUR) / MINUTE))}m`;
  }
  return `${Math.floor(ms / DAY)}d${twoDigits(Math.floor((ms % DAY) / HOUR))}h`;
}

/** What is left, in whole seconds, never 0 while anything is: `3s`, `2m10s`. */
export function formatCountdown(leftMs: number): string {
  const wholeMs = Math.ceil(Math.max(0, leftMs) / SECOND) * SECOND;
  return wholeMs < MINUTE ? `${wholeMs / SECOND}s` : formatElapsed(wholeMs);
}

const units = ['KiB', 'MiB', 'GiB', 'TiB'];

/** `812 B`, `1.5 MiB`. */
export function formatBytes(bytes: number): string {
  if (bytes < 1024) {
    return `${bytes} B`;
  }
  let value = bytes / 1024;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.floor(value)} ${units[unit]}`;
}

/** `1 step`, `3 steps`. */
export function formatCount(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
