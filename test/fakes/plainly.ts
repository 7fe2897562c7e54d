import { writeJson } from '../../src/platform/json/kept.js';

/** A value whose data of others is read, too, for comparisons. */
export const plainly = <T>(value: T): T => JSON.parse(writeJson(value)) as T;
