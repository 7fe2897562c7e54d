const LONGEST_MS = 60_000;

/** What `retry-after-ms` or `retry-after` (seconds or a date) asks for, in milliseconds, at most a minute; null: nothing. */
export function retryAfterMs(header: (name: string) => string | null): number | null {
  const asked = [
    Number.parseFloat(header('retry-after-ms') ?? ''),
    inMs(header('retry-after'), header('date')),
  ];
  const wait = asked.find((ms) => ms >= 0);
  return wait === undefined ? null : Math.min(wait, LONGEST_MS);
}

/** A date is one of the answer's clock, as far as its `date` tells that. */
function inMs(text: string | null, date: string | null): number {
  if (text === null || text.trim() === '') return Number.NaN;
  const seconds = Number(text);
  if (!Number.isNaN(seconds)) return seconds * 1000;
  const said = Date.parse(date ?? '');
  return Date.parse(text) - (Number.isNaN(said) ? Date.now() : said);
}
