/** Numbers for people, the same in every locale. */

/** `12,345`; fractions are rounded to four significant digits. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value)) return value.toLocaleString('en-US');
  const size = Math.abs(value);
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
  // A value that would show as 0.0000 is small, not zero.
  if (size < 0.00005) return value.toExponential(1);
  return withDigits(value, digits);
}

const withDigits = (value: number, digits: number): string =>
  value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** `1 turn`, `1,234 turns`. */
export const formatCount = (count: number, what: string): string =>
  `${formatNumber(count)} ${what}${count === 1 ? '' : 's'}`;

/** `14.2`, `830`: a rate needs no more. */
export function formatRate(perSecond: number): string {
  const digits = perSecond < 100 && !Number.isInteger(perSecond) ? 1 : 0;
  return withDigits(perSecond, digits);
}

/** `0:07`, `12:30`, `1:02:03`. */
export function formatClock(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (value: number): string => String(value).padStart(2, '0');
  return h > 0 ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}
