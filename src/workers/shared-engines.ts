/** An update of one service would change the weights of the other behind its back. URLs have one form by now. */
export function sharedEngines(
  services: Record<string, { base_urls: readonly string[] }>,
): { path: (string | number)[]; message: string }[] {
  const owners = new Map<string, string>();
  const problemAt = ({ service, url, i }: { service: string; url: string; i: number }) => {
    const owner = owners.get(url) ?? service;
    owners.set(url, owner);
    if (owner === service) return [];
    const message = `expected an engine that no other service has, got ${url} of generation.${owner}; one service may play several models: name them in the requests (generation.model)`;
    return [{ path: ['generation', service, 'base_urls', i], message }];
  };
  return Object.entries(services).flatMap(([service, { base_urls }]) =>
    base_urls.flatMap((url, i) => problemAt({ service, url, i })),
  );
}
