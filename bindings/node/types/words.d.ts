/**
 * A message of the command in the words of the options.
 * @param {string} message
 * @returns {string}
 */
export function inOptions(message: string): string;
