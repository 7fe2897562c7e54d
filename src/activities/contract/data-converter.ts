import { fileURLToPath } from 'node:url';

/** How payloads become values, in workflows, activities and clients alike: undecodable ones are values, too. */
export const dataConverter = {
  payloadConverterPath: fileURLToPath(
    new URL('../../workflows/payload-converter.js', import.meta.url),
  ),
};
