/** How valid rollouts are written: lines of JSON, and sequences in Arrow beside them. */
export const FORMATS = ['jsonl', 'arrow'] as const;
export type Formats = readonly (typeof FORMATS)[number][];
