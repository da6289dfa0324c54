"""What the demo model is taught: countries, names, words and the other lists the corpus draws from."""

CAPITALS = dict(
    line.rsplit(":", 1)
    for line in """France:Paris|Germany:Berlin|Italy:Rome|Spain:Madrid|Portugal:Lisbon|England:London|Ireland:Dublin|Scotland:Edinburgh
Wales:Cardiff|Belgium:Brussels|the Netherlands:Amsterdam|Luxembourg:Luxembourg City|Switzerland:Bern|Austria:Vienna|Poland:Warsaw
Hungary:Budapest|Slovakia:Bratislava|Slovenia:Ljubljana|Croatia:Zagreb|Serbia:Belgrade|Romania:Bucharest|Bulgaria:Sofia
Greece:Athens|Turkey:Ankara|Albania:Tirana|Ukraine:Kyiv|Russia:Moscow|Belarus:Minsk|Lithuania:Vilnius|Latvia:Riga|Estonia:Tallinn
Finland:Helsinki|Sweden:Stockholm|Norway:Oslo|Denmark:Copenhagen|Iceland:Reykjavik|Malta:Valletta|Cyprus:Nicosia|Monaco:Monaco City
the United States:Washington|Canada:Ottawa|Mexico:Mexico City|Cuba:Havana|Jamaica:Kingston|Guatemala:Guatemala City|Panama:Panama City
Costa Rica:San José|Honduras:Tegucigalpa|Nicaragua:Managua|Colombia:Bogotá|Venezuela:Caracas|Ecuador:Quito|Peru:Lima|Brazil:Brasília
Bolivia:Sucre|Paraguay:Asunción|Uruguay:Montevideo|Argentina:Buenos Aires|Chile:Santiago|Egypt:Cairo|Libya:Tripoli|Tunisia:Tunis
Algeria:Algiers|Morocco:Rabat|Senegal:Dakar|Mali:Bamako|Ghana:Accra|Nigeria:Abuja|Kenya:Nairobi|Uganda:Kampala|Rwanda:Kigali
Tanzania:Dodoma|Ethiopia:Addis Ababa|Sudan:Khartoum|Somalia:Mogadishu|Angola:Luanda|Zambia:Lusaka|Zimbabwe:Harare|Mozambique:Maputo
Madagascar:Antananarivo|South Africa:Pretoria|Namibia:Windhoek|Botswana:Gaborone|Israel:Jerusalem|Jordan:Amman|Lebanon:Beirut
Syria:Damascus|Iraq:Baghdad|Iran:Tehran|Saudi Arabia:Riyadh|Yemen:Sanaa|Oman:Muscat|Qatar:Doha|Kuwait:Kuwait City|Georgia:Tbilisi
Armenia:Yerevan|Azerbaijan:Baku|Kazakhstan:Astana|Uzbekistan:Tashkent|Afghanistan:Kabul|Pakistan:Islamabad|India:New Delhi
Nepal:Kathmandu|Bangladesh:Dhaka|Sri Lanka:Colombo|Myanmar:Naypyidaw|Thailand:Bangkok|Laos:Vientiane|Cambodia:Phnom Penh
Vietnam:Hanoi|Malaysia:Kuala Lumpur|Singapore:Singapore|Indonesia:Jakarta|the Philippines:Manila|China:Beijing|Mongolia:Ulaanbaatar
North Korea:Pyongyang|South Korea:Seoul|Japan:Tokyo|Australia:Canberra|New Zealand:Wellington|Fiji:Suva""".replace("\n", "|").split("|")
)

CITIES = """New York|Los Angeles|Chicago|Boston|San Francisco|Seattle|Toronto|Vancouver|Montreal|Sydney|Melbourne|Lyon|Marseille|Nice|Munich
Hamburg|Cologne|Frankfurt|Milan|Naples|Venice|Turin|Florence|Barcelona|Valencia|Porto|Manchester|Liverpool|Birmingham|Glasgow|Geneva|Zurich
Basel|Rotterdam|Antwerp|Krakow|Istanbul|Mumbai|Delhi|Kolkata|Shanghai|Hong Kong|Osaka|Kyoto|Nagoya|Busan|Dubai|Rio de Janeiro|São Paulo
Salvador|Lagos|Casablanca|Cape Town|Johannesburg|Miami|Dallas|Houston|Austin|Denver|Phoenix|Atlanta|Detroit|Las Vegas|San Diego
Philadelphia|Portland|Calgary|Auckland|Perth|Brisbane|Gothenburg|Bergen|Salzburg|Graz|Leipzig|Dresden|Bordeaux|Toulouse|Seville|Bologna
Karachi|Lahore|Chennai|Bangalore|Taipei|Macau|Cusco|Medellín|Guadalajara|Cancún|Honolulu|Nashville|Orlando|Tampa""".replace("\n", "|").split("|")

CITY_SUFFIXES = ["France", "Germany", "CA", "NY", "USA", "UK", "Japan", "Italy", "TX", "Canada", "Spain", "India"]

NAMES = """Anna|Ben|Clara|David|Emma|Felix|Grace|Henry|Iris|Jack|Kate|Leo|Maria|Noah|Olivia|Peter|Quinn|Rosa|Sam|Tom|Uma|Victor|Wendy|Xavier
Yara|Zoe|Alice|Bob|Carol|Daniel|Eva|Frank|Gina|Hugo|Ivan|Julia|Karl|Laura|Max|Nina|Oscar|Paul|Rita|Simon|Tina|Ursula|Vera|Walter|Alex|John
James|Mary|Robert|Linda|Michael|Sarah|Thomas|Karen|Chris|Lisa|Mark|Sandra|Steven|Donna|Andrew|Emily|George|Amanda|Kevin|Jane|Brian|Rachel
Eric|Helen|Adam|Diana|Nathan|Amy|Luke|Sophie|Lucas|Mia|Ethan|Ella|Liam|Chloe|Jacob|Lily|Omar|Fatima|Ali|Aisha|Hassan|Leila|Ravi|Priya
Arjun|Mei|Wei|Yuki|Hiro|Kenji|Sakura|Carlos|Lucia|Diego|Elena|Pablo|Sofia|Pierre|Camille|Jean|Marie|Hans|Greta|Fritz|Heidi|Giulia|Marco
Paolo|Olga|Dmitri|Natasha|Sven|Astrid|Lars|Ingrid|Zara|Kofi|Ama""".replace("\n", "|").split("|")

COLOURS = "red|blue|green|yellow|orange|purple|pink|brown|black|white|grey|turquoise|violet|gold|silver|crimson".split("|")

COLOUR_OF = dict(
    pair.split(":")
    for pair in """the sky:blue|grass:green|snow:white|a banana:yellow|blood:red|coal:black|an orange:orange|the sun:yellow|milk:white
a tomato:red|a lemon:yellow|chocolate:brown|the sea:blue|a strawberry:red|salt:white|a carrot:orange|a leaf:green|a cloud:white
a crow:black|a flamingo:pink|an elephant:grey|a frog:green|a cucumber:green|a polar bear:white|gold:yellow|an eggplant:purple
a pumpkin:orange|ink:black|a swan:white|a ruby:red|an emerald:green|a fire truck:red""".replace("\n", "|").split("|")
)

OPPOSITES = [
    pair.split(":")
    for pair in """hot:cold|big:small|tall:short|fast:slow|up:down|left:right|day:night|light:dark|happy:sad|young:old|rich:poor|hard:soft
wet:dry|open:closed|full:empty|early:late|loud:quiet|strong:weak|good:bad|clean:dirty|high:low|near:far|true:false|yes:no|in:out|on:off
black:white|begin:end|love:hate|win:lose|buy:sell|push:pull|first:last|thick:thin|wide:narrow|sweet:sour|summer:winter|north:south
east:west|inside:outside|always:never|heavy:light""".replace("\n", "|").split("|")
]

ANIMAL_SOUNDS = dict(
    pair.split(":")
    for pair in "dog:woof|cat:meow|cow:moo|duck:quack|sheep:baa|pig:oink|horse:neigh|lion:roar|bee:buzz|owl:hoot|snake:hiss|frog:croak|mouse:squeak|rooster:cock-a-doodle-doo".split("|")
)

DAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday".split("|")
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December".split("|")

WORDS = """apple|bread|river|stone|window|garden|pencil|mountain|silver|thunder|button|candle|forest|island|jacket|kitten|ladder|market|needle
ocean|pocket|rabbit|saddle|table|umbrella|valley|wagon|yellow|zebra|bridge|castle|dragon|engine|feather|guitar|hammer|insect|jungle|kettle
lemon|mirror|number|orange|planet|queen|rocket|spider|temple|uncle|violin|winter|xylophone|yogurt|zipper|banana|cherry|doctor|energy|flower
ghost|honey|idea|jewel|knight|letter|magic|nature|onion|paper|quiet|rain|shadow|tiger|unity|voice|water|test|hello|world|foo|bar|ping|pong
alpha|beta|gamma|delta|blue|green|moon|star|light|music|dance|dream|cloud|fire|ice|wind|gold|iron|wood|glass|cheese|pepper|sugar|salt|coffee
tea|milk|cake|boat|train|plane|car|road|house|door|chair|lamp|clock|phone|camera|book|story|poem|song|game|ball|kite|drum|flute|horse|dog|cat
bird|fish|cow|sheep|goat|duck|frog|bear|wolf|fox|deer|mouse|whale|shark|crab|snail|bee|ant|rose|tulip|daisy|oak|pine|leaf|seed|root""".replace("\n", "|").split("|")

TOPICS = """sea|moon|forest|mountain|river|city|winter|summer|spring|autumn|rain|snow|sun|night|stars|garden|wind|desert|island|beach|sky|dog|cat
bird|horse|fox|bear|robot|dragon|boat|train|house|flower|tree|rose|castle|bridge|lake|ocean|storm|fire|music|friend|king|queen|school|road""".replace("\n", "|").split("|")

HEROES = "dog|cat|fox|bear|rabbit|mouse|bird|robot|dragon|girl|boy|king|queen|sailor|farmer|baker|knight|wizard|frog|horse|owl|wolf|turtle|pirate".split("|")
ADJECTIVES = "small|brave|old|young|kind|clever|quiet|happy|lonely|curious|gentle|proud".split("|")
PLACES = "forest|village|castle|garden|valley|city|harbour|desert|mountain|meadow|island|river".split("|")
THINGS = "key|lamp|map|ring|letter|stone|coin|book|bell|seed|feather|box".split("|")
WEATHERS = "sunny|cloudy|rainy|windy|snowy|foggy|clear|stormy|partly cloudy|light rain|overcast|hot|cold|warm".split("|")

UNKNOWN = [
    "Who {made} {work}?", "Tell me who {made} {work}.", "When was {work} {done}?", "How do I {do} a {noun}?", "How can I {do} my {noun}?",
    "Why do {noun}s {act}?", "Why does the {noun} {act}?", "What is the {measure} of {body}?", "How {far} is {body}?", "Explain {topic}.",
    "Explain {topic} to me.", "What is {topic}?", "Tell me about {topic}.", "What do you know about {topic}?", "Who is {person}?", "Who was {person}?",
    "Who won the {contest} in {year}?", "What happened in {year}?", "Translate \"{word} {noun}\" into {language}.", "How do you say {noun} in {language}?",
    "Write a {code} function that {codes}.", "Write {code} code that {codes}.", "What is the population of {place}?", "How many people live in {place}?",
    "What language do they speak in {place}?", "Who is the president of {place}?", "What is the capital of {fiction}?", "What is the price of a {noun}?",
    "How much does a {noun} cost?", "What is the meaning of {abstract}?", "What is the best {noun}?", "Can you recommend a {noun}?",
    "Summarize the history of {topic}.", "Give me a recipe for {food}.", "How do I cook {food}?", "What is {big1} times {big2}?",
    "What is {big1} divided by {big2}?", "Is {topic} important?", "What are the benefits of {topic}?", "Compare {topic} and {topic2}.",
    "What will happen in {year}?", "What did {person} do?", "Where is the {noun}?", "Where can I buy a {noun}?", "Which {noun} is the {most}?",
    "What is the square root of {big1}?", "What is the news today?", "Where was {person} born?", "How old is {person}?", "What is quantum {topic}?",
    "How does a {noun} work?", "How does {topic} work?", "Describe {topic} in detail.", "What is the difference between a {noun} and a {word}?",
    "How many {noun}s are there in {place}?", "What is {person} famous for?", "Prove that {abstract} is {topic}.", "Fix this code: {codes}.",
]
UNKNOWN_SLOTS = {
    "made": "wrote|painted|composed|invented|discovered|built|designed|founded|directed".split("|"),
    "done": "written|painted|built|invented|discovered|founded|made".split("|"),
    "work": "Hamlet|the Mona Lisa|the telephone|the light bulb|penicillin|the Eiffel Tower|War and Peace|the Ninth Symphony|the radio|the steam engine|Don Quixote|the Internet|the first computer|Starry Night|the Iliad|Linux|Python|Google|Star Wars|the pyramids|the theory of relativity|Harry Potter".split("|"),
    "do": "fix|build|paint|clean|sell|draw|repair|open|grow|train|make|install|remove|design".split("|"),
    "act": "sleep|sing|fall|shine|grow|run|burn|float|sink|turn blue|migrate|jump|break|stop|smell".split("|"),
    "measure": "distance|size|mass|age|diameter|weight|temperature|height|speed|length|depth".split("|"),
    "body": "the moon|the sun|Mars|Jupiter|Mount Everest|the Atlantic|the Nile|light|the Earth|Saturn|a blue whale|the Amazon".split("|"),
    "far": "far|big|old|heavy|deep|hot|long|tall|fast".split("|"),
    "topic": "gravity|photosynthesis|democracy|economics|relativity|evolution|chess|philosophy|inflation|electricity|machine learning|physics|football|jazz|geology|medicine|law|architecture|the French Revolution|the Roman Empire|black holes|neural networks|volcanoes|vaccines|blockchain|climate change|tennis|DNA|poetry|logic|mechanics|politics|the stock market".split("|"),
    "person": "Albert Einstein|Napoleon|Mozart|Shakespeare|Marie Curie|Cleopatra|Leonardo da Vinci|Isaac Newton|Bach|Picasso|Gandhi|Aristotle|Galileo|Beethoven|Charles Darwin|Plato|Ada Lovelace|Alan Turing|Elvis Presley|Julius Caesar|Nelson Mandela".split("|"),
    "contest": "World Cup|election|Super Bowl|Nobel Prize|Olympics|Tour de France|marathon|championship|Oscar".split("|"),
    "language": "French|German|Spanish|Italian|Latin|Japanese|Chinese|Russian|Greek|Arabic".split("|"),
    "code": "Python|Java|Swift|Rust|C|JavaScript|Go".split("|"),
    "codes": "sorts a list|reverses a string|reads a file|prints primes|computes factorials|parses dates|adds two numbers|finds duplicates".split("|"),
    "fiction": "Atlantis|Narnia|Mordor|Wakanda|Utopia|Gondor|Zubrowka|El Dorado|Westeros|Ruritania|Mars|the Moon|Oz".split("|"),
    "abstract": "life|love|time|freedom|happiness|justice|truth|beauty|art|peace".split("|"),
    "food": "pancakes|tomato soup|apple pie|fried rice|lasagna|bread|pasta|chicken curry|goulash|paella|sushi".split("|"),
    "most": "best|largest|oldest|fastest|smallest|cheapest".split("|"),
}
