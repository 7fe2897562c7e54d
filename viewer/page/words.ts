/** Numbers as people read them. */
const NONE = '–';

const grouped = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 });
const rough = new Intl.NumberFormat('en-GB', { maximumSignificantDigits: 3 });
const thousandths = new Intl.NumberFormat('en-GB', {
  minimumFractionDigits: 3,
  maximumFractionDigits: 3,
});
const precise = new Intl.NumberFormat('en-GB', { maximumSignificantDigits: 4 });

export const whole = (value: number | null): string =>
  value === null ? NONE : grouped.format(value);
export const decimal = (value: number | null): string =>
  value === null ? NONE : precise.format(value).replace('-', '−');

/** At the end of an axis, where there is little room. */
export const tick = (value: number): string => rough.format(value).replace('-', '−');

/** As decimal numbers under each other are compared: digits of the same worth in the same place. */
export const aligned = (value: number | null): string =>
  value === null || (value !== 0 && Math.abs(value) < 0.0005)
    ? decimal(value)
    : thousandths.format(value).replace('-', '−');

/** What a value has gained: its sign is always said. */
export const gained = (value: number | null): string =>
  `${value !== null && value > 0 ? '+' : ''}${aligned(value)}`;

export const percent = (share: number | null): string =>
  share === null ? NONE : `${precise.format(Math.round(share * 1000) / 10)} %`;

export function seconds(value: number | null): string {
  if (value === null) return NONE;
  if (value > 0 && value < 0.0005) return '<1 ms';
  if (value > 0 && value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 100) return `${precise.format(Math.round(value * 10) / 10)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
}

export const time = (at: number | null): string =>
  at === null
    ? NONE
    : new Date(at * 1000)
        .toISOString()
        .replace('T', ' ')
        .replace(/\.\d+Z$/, ' UTC');

/** What has become of how many: `10 with a reward, 6 failed, of 16`. */
export const outcomes = (counts: Record<string, number>, of: number | null): string =>
  [
    ...Object.entries(counts).flatMap(([what, count]) =>
      count === 0 ? [] : [`${whole(count)} ${what}`],
    ),
    ...(of === null ? [] : [`of ${whole(of)}`]),
  ].join(', ') || NONE;

export const plural = (count: number, one: string): string =>
  `${whole(count)} ${one}${count === 1 ? '' : 's'}`;
