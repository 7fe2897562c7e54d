import { invalidBatchRequest } from '../../model/problems.js';
import { pictureRoute } from '../pictures.js';
import type { Asked } from './asked-once.js';
import { askedOnce } from './asked-once.js';

/** Refuses a batch with pictures that an engine cannot take together with ids. It asks every replica that serves, with a picture. */
export async function checkPictures(
  { request: { generation }, pool, signal }: Asked,
  where: string,
): Promise<void> {
  const model = generation.model ?? '';
  const answers = await askedOnce(() =>
    pool.askServing((service) => pictureRoute(service).refusal(model, signal), signal),
  );
  const problems = answers.flatMap(({ replica, answer }) =>
    answer === null
      ? []
      : [{ where, what: `expected an engine that takes its image: ${replica}: ${answer}` }],
  );
  if (problems.length > 0) throw invalidBatchRequest(problems);
}
