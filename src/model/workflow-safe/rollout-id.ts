/** A rollout's place in its batch. */
export interface RolloutPlace {
  batch_id: string;
  /** Row of the input, from 0. */
  row: number;
  /** Member of the row's group, from 0. */
  repeat: number;
}

/** Also the rollout's workflow id. */
export const rolloutId = ({ batch_id, row, repeat }: RolloutPlace): string =>
  `${batch_id}/${row}-${repeat}`;
