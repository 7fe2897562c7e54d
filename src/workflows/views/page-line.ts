/** A link to its page, for current details: behind an empty line; nothing where there is none. */
export const pageLine = (page: string | undefined): string[] =>
  page === undefined ? [] : ['', `[what the policy did](${page})`];
