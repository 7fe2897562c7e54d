import type { JSX } from 'preact';
import { aligned } from './words.js';

/** How far from 0 the bar of a table's longest meter reaches. */
export const largest = (values: readonly (number | null)[]): number =>
  values.reduce<number>((most, value) => Math.max(most, Math.abs(value ?? 0)), 0);

/** A number, and a bar for eyes as long as its part of `full`; below 0 the bar is hollow. */
export const Metered = ({ value, full }: { value: number | null; full: number }): JSX.Element => (
  <span class="metered">
    {value !== null && full > 0 && (
      <svg class="meter" viewBox="0 0 40 8" preserveAspectRatio="none" aria-hidden="true">
        <rect
          class={value < 0 ? 'frame' : 'bar'}
          x="0.5"
          y="0.5"
          width={(39 * Math.abs(value)) / full}
          height="7"
        />
      </svg>
    )}
    <span class="amount">{aligned(value)}</span>
  </span>
);
