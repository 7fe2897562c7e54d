/** A rollout's place in its batch. */
export interface Place {
  /** Row of the input, from 0. */
  row: number;
  /** Member of the row's group, from 0. */
  repeat: number;
}

export interface RolloutPlace extends Place {
  batch_id: string;
}

export const placeText = ({ row, repeat }: Place): string => `${row}-${repeat}`;

/** It names a directory and prefixes workflow ids, so it must not contain a path. */
export const BATCH_ID = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,119}$/;

/** Also the rollout's workflow id. */
export const rolloutId = ({ batch_id, ...place }: RolloutPlace): string =>
  `${batch_id}/${placeText(place)}`;

/** The place that a rollout's id names; null: it is none. */
export function placeOfRollout(id: string): RolloutPlace | null {
  const [, batch_id = '', row, repeat] = /^([^/]+)\/(\d{1,15})-(\d{1,15})$/.exec(id) ?? [];
  const place = { batch_id, row: Number(row), repeat: Number(repeat) };
  return BATCH_ID.test(batch_id) && rolloutId(place) === id ? place : null;
}
