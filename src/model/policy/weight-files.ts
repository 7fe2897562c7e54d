import { z } from 'zod';

/**
 * What a worker sees of the files of weights. Publishing records it, because a path may have other contents later, and
 * a version names one.
 */
export const WeightFiles = z.object({
  bytes: z.int(),
  /** When the youngest was written, in ISO form. */
  modified: z.string(),
  /** A hash of names, sizes, and the contents of small files, such as an index. */
  sha256: z.string(),
  /** All were small, so no other content has this hash. */
  whole: z.boolean(),
  /** Whose worker saw them. */
  host: z.string(),
});
export type WeightFiles = z.infer<typeof WeightFiles>;

/** Files of one size that are too large to be read are told apart by their time. */
export const isOther = (before: WeightFiles, now: WeightFiles): boolean =>
  before.sha256 !== now.sha256 || (!before.whole && before.modified !== now.modified);

/** The same for hosts that may have copies of their own, whose times differ. */
export const isOtherOnAnyHost = (before: WeightFiles, now: WeightFiles): boolean =>
  isOther(before, now) && (before.sha256 !== now.sha256 || before.host === now.host);

export const filesText = ({ bytes, modified }: WeightFiles): string =>
  `${bytes} bytes, written at ${modified}`;
