import type { PacingSettings, PacingState } from './state.js';
import { countOf } from './state.js';

/** How far groups and steps may be apart: at which step a group is due, and how many groups there may be. */

/** V of the next step: as requested, else the one that follows if the policy moves as the request says. */
export function versionOfNextStep(
  { version, served, last_version }: Pick<PacingState, 'version' | 'served' | 'last_version'>,
  { versions_per_step }: Pick<PacingSettings, 'versions_per_step'>,
): number {
  if (version !== null) return version;
  return last_version === null ? served : Math.max(served, last_version + versions_per_step);
}

/** How many steps after the next one a group may wait; below 0 it is already too old, for all that is known. */
export const stepsLeft = (
  born: number | null,
  { version, settings }: { version: number; settings: PacingSettings },
): number =>
  born === null
    ? -Infinity
    : Math.floor((born + settings.max_lag - version) / settings.versions_per_step);

export function roomForAdmission(state: PacingState, settings: PacingSettings): number {
  const { groups_per_step, num_repeats, max_in_flight } = settings;
  if (isStarved(state, settings)) return 0;
  const version = versionOfNextStep(state, settings);
  const steps = 1 + stepsLeft(state.served, { version, settings });
  // The last one may have more rollouts than there is room for. Otherwise a group larger than the room would never
  // begin.
  const groupsInFlight = Math.ceil((max_in_flight - inFlight(state)) / num_repeats);
  return Math.max(
    0,
    Math.min(
      groups_per_step * steps - state.groups.length,
      groupsInFlight,
      samplesLeft(state, settings),
    ),
  );
}

const inFlight = ({ groups }: PacingState): number =>
  groups.reduce((sum, { in_flight }) => sum + in_flight, 0);

/** How many groups can still be admitted before the epochs are used up. */
export const samplesLeft = (
  { admitted }: PacingState,
  { samples, epochs }: PacingSettings,
): number => (epochs === null ? Infinity : samples * epochs - admitted);

/** After this many steps' worth of discarded groups in a row, none is admitted until the trainer asks again. */
const STEPS_UNTIL_STARVED = 10;

export const groupsUntilStarved = ({ groups_per_step }: PacingSettings): number =>
  STEPS_UNTIL_STARVED * groups_per_step;

export const isStarved = ({ out_in_row }: PacingState, settings: PacingSettings): boolean =>
  countOf(out_in_row) >= groupsUntilStarved(settings);
