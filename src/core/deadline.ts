// Spans of time that mean the same after a crash, a reboot and a step of the wall clock.
import type { Now } from './ports.ts';
import type { Span } from './records.ts';

export function startSpan(now: Now, lengthMs: number): Span {
  return { startMs: now.wallMs, startUptimeMs: now.uptimeMs, bootId: now.bootId, lengthMs };
}

/**
 * Milliseconds left of a span, from 0 to its length. Within the boot that began it, uptime measures. After a reboot at
 * least the present uptime has passed; the wall clock is believed beyond that only from `trustedFromMs` on (the
 * bundle's build date), because a router boots with a wrong clock. Between machines the shared wall clock alone counts.
 */
export function remainingMs(span: Span, now: Now, trustedFromMs: number): number {
  const wallElapsedMs = now.wallMs >= trustedFromMs ? now.wallMs - span.startMs : 0;
  const elapsedMs =
    span.bootId === now.bootId
      ? now.uptimeMs - span.startUptimeMs
      : Math.max(now.isShared === true ? 0 : now.uptimeMs, wallElapsedMs);
  return Math.min(span.lengthMs, Math.max(0, span.lengthMs - elapsedMs));
}

export function isOver(span: Span, now: Now, trustedFromMs: number): boolean {
  return remainingMs(span, now, trustedFromMs) === 0;
}
