import { worthOf } from './workload.js';

/** What a program's sum is worth. */
export default {
  stepOne: ({ metadata }: { metadata: { submission: string } }) => ({
    observation: 'verified',
    reward: worthOf(Number(metadata.submission)),
    terminated: true,
  }),
};
