import { z } from 'zod';

/**
 * Tables (Parquet, `datasets`, pandas) give every row every column, and every struct every field: null where there is
 * none. So null in an optional field is an absent field, and one that is null and unknown is none. `of`: the fields
 * that this holds for; by default all.
 */
export const nullIsAbsent = <T extends z.ZodType>(
  schema: T,
  of: (field: string) => boolean = () => true,
) => z.preprocess((value) => withoutNulls(value, of), schema);

function withoutNulls(value: unknown, of: (field: string) => boolean): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const fields = Object.entries(value);
  const isNothing = ([name, field]: [string, unknown]): boolean => field === null && of(name);
  return fields.some(isNothing)
    ? Object.fromEntries(fields.filter((field) => !isNothing(field)))
    : value;
}
