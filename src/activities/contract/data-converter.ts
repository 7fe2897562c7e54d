import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** A test may run the sources, uncompiled. */
const extension = path.extname(fileURLToPath(import.meta.url));

/** How payloads become values, in workflows, activities and clients alike: undecodable ones are values, too. */
export const dataConverter = {
  payloadConverterPath: fileURLToPath(
    new URL(`../../workflows/payload-converter${extension}`, import.meta.url),
  ),
};
