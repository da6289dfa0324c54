// A text of many kinds, by which scales of weights are searched for where no other is given; this project's own words.

enum CalibrationText {
  static let text = """
    The harbour was quiet when the ferry came in. Two fishermen mended their nets on the quay, and a girl with a red umbrella \
    counted the gulls on the roof of the customs house. "You are early," said the older man without looking up. "The tide was \
    kind," the captain answered, and threw him the rope. By noon the market had filled the square: apples from the hills, \
    cheese under wet cloths, a table of books that smelled of cellars.

    Question: Why does ice float on water?
    Answer: Water is densest at about 4 degrees Celsius. When it freezes, its molecules form an open crystal in which they are \
    farther apart than in the liquid, so a litre of ice weighs about 0.92 kg and is carried by the water that it displaces.

    def median(values):
        \"\"\"The middle value, or the mean of the two middle ones.\"\"\"
        ordered = sorted(values)
        middle = len(ordered) // 2
        if len(ordered) % 2 == 1:
            return ordered[middle]
        return (ordered[middle - 1] + ordered[middle]) / 2

    In 1815 a mountain on the island of Sumbawa exploded. The ash reached the stratosphere within days, and the summer after it \
    was so cold in Europe and North America that crops failed, prices of grain rose to three times what they had been, and \
    thousands of families left their farms. Historians disagree about how much of the unrest of those years the weather explains.

    | Month | Visitors | Change |
    |---|---|---|
    | March | 1,204 | +3.1 % |
    | April | 1,377 | +14.4 % |
    | May | 1,298 | -5.7 % |

    User: I have 3 boxes with 12 pencils each and give away 7. How many are left?
    Assistant: Three boxes of 12 pencils are 36 pencils. After giving away 7, 36 - 7 = 29 are left.
    User: Merci. Et comment dit-on cela en français ?
    Assistant: "Il en reste vingt-neuf." Wenn Sie möchten, kann ich es auch auf Deutsch sagen: Es bleiben neunundzwanzig übrig.

    {"name": "Ada", "languages": ["Python", "Swift", "SQL"], "active": true, "score": 97.5, "notes": null}

    SELECT city, COUNT(*) AS orders, SUM(total) AS revenue FROM sales WHERE year = 2024 GROUP BY city ORDER BY revenue DESC;

    The theorem says that between any two real numbers there is a rational one. Let a < b, and choose a natural number n with \
    1/n < b - a. Some multiple k/n is the first that is greater than a, and it cannot be as large as b, because the one before \
    it is at most a and the step is shorter than the gap. Hence a < k/n < b, which proves the claim.

    To make the soup, cut two onions and a leek into rings and let them soften in butter for ten minutes. Add four potatoes, \
    a litre of stock and a bay leaf; simmer until a fork goes through the potatoes without resistance. Take out the leaf, blend \
    half of it, stir in a little cream, and season with salt, pepper and nutmeg. It keeps for three days in the refrigerator.

    Dear Ms. Okafor, thank you for your letter of 14 June. We have looked into the delay of your order no. 88213 and found that \
    the parcel was returned because the street was missing from the label. A new one left our warehouse this morning; you can \
    follow it with the number below. We are sorry for the trouble and have refunded the postage. Kind regards, J. Lindqvist

    Once there was a tailor who could sew anything but a pocket. Each coat he made was perfect, and each came back, because its \
    owner had nowhere to put his hands. "Why do you not learn it?" asked his daughter. "Because I am afraid," he said, "that I \
    would keep something in them." She laughed, took the needle, and made him one, and in the evening he found a stone in it.

    func binarySearch(_ list: [Int], for target: Int) -> Int? {
      var (low, high) = (0, list.count - 1)
      while low <= high {
        let middle = (low + high) / 2
        if list[middle] == target { return middle }
        if list[middle] < target { low = middle + 1 } else { high = middle - 1 }
      }
      return nil
    }

    The committee met on Tuesday to discuss the new bridge. Engineers presented three designs: a steel arch, a concrete beam and \
    a cable-stayed span, at 41, 33 and 58 million. Residents asked about noise, cyclists about lanes, and the treasurer about \
    interest rates. A vote was put off until the report on the river bed is finished, which is expected in September.
    """
}
