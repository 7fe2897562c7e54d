const LONGEST_MS = 60_000;

/** What `retry-after-ms` or `retry-after` (seconds or a date) asks for, in milliseconds, at most a minute; null: nothing. */
export function retryAfterMs(header: (name: string) => string | null): number | null {
  const asked = [Number.parseFloat(header('retry-after-ms') ?? ''), inMs(header('retry-after'))];
  const wait = asked.find((ms) => ms >= 0);
  return wait === undefined ? null : Math.min(wait, LONGEST_MS);
}

function inMs(text: string | null): number {
  if (text === null || text.trim() === '') return Number.NaN;
  const seconds = Number(text);
  return Number.isNaN(seconds) ? Date.parse(text) - Date.now() : seconds * 1000;
}
