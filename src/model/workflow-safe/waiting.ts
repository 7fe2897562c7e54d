/** Signal `waiting`, and what rollouts and batches show: who is waited for; null when that is over. */
export interface Waiting {
  /** Where: a URL, or the call. */
  service: string;
  /** The last answer, or why there is none. */
  message: string;
  /** Nothing that the rollout could do: its deadline does not run meanwhile. */
  holds?: true;
  /** Whom is asked, by name: `environment puzzle`. */
  call?: string;
  /** How often it was tried. */
  tries?: number;
  /** Since when, as people read it. */
  since?: string;
  /** Of a batch: how many of its rollouts wait for it. */
  rollouts?: number;
}

/** Seconds since 1970, for people anywhere. */
export const timeText = (at_s: number): string =>
  `${new Date(at_s * 1000).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

/** Whom is waited for. */
export const waitedForText = ({ service, call }: Waiting): string =>
  call === undefined || call === service ? service : `${call} at ${service}`;

/** How often and since when; empty where that is not known. */
export function waitedHowText({ tries, since, rollouts }: Waiting): string {
  const tried = tries === undefined ? '' : `${tries} ${tries === 1 ? 'try' : 'tries'}`;
  const parts = [
    rollouts === undefined ? '' : `${rollouts} ${rollouts === 1 ? 'rollout' : 'rollouts'}`,
    [tried, since === undefined ? '' : `since ${since}`].filter(Boolean).join(' '),
  ].filter(Boolean);
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}

/** In one text. */
export const waitingText = (waiting: Waiting): string =>
  `${waitedForText(waiting)}${waitedHowText(waiting)}: ${waiting.message}`;
